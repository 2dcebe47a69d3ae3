"""The texts in `.kafkafs`: what this tree is, and its options."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import kafkafs
from kafkafs.locator.paths import BY_TIME_NAME, CONTROL_NAME, PartitionPath, TopicPath
from kafkafs.plain_text import field
from storage.errors import StorageError
from storage.files import absolute_path
from storage.segment import FileName, Kind, live_offsets
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.rights import Rights
    from storage.store import Store

_PARTITIONS_LOOKED_AT_MAX: Final = 100
_SEGMENTS_LOOKED_AT_MAX: Final = 100
_INTERNAL_PREFIX: Final = "__"
_HERE: Final = f"""\
Names are listed sparingly and found generously: any offset, range, time and
format can be asked for. Formats are .key .headers .json .jsonl .hex .batch,
times are 2026-11-21T02:14, 1732147200000, now, -15m.

In {CONTROL_NAME}:

    version, options    of this kafkafs, and what it was told
    metrics, log        what it has done so far, where there is a mount
    by-time/TIME        topic:partition:offset, as kafka-get-offsets --time
    groups/GROUP        offsets that it committed, ends, lag and members
    transactions        those that are open, and what they hold up
    unattached/         partition directories: stray, moving, being deleted
    cluster/            meta.properties and checkpoints of the first log dir,
                        and in 1/, 2/ of the others; topics, configs, brokers
                        and more as the cluster's metadata log has them

`kafkafs ls` and `kafkafs cat` show the same without a mount; `kafkafs help`
says more.
"""


class _Example(NamedTuple):
    """A command to be typed at the root of the tree, and what it does."""

    command: str
    meaning: str


def version_text() -> str:
    """The version of kafkafs."""
    return f"{kafkafs.__version__}\n"


def options_text(store: Store, options: TreeOptions, further: Mapping[str, object]) -> str:
    """Return the process, the store and the options: first those of every tree, then those of a mount.

    Bytes that are no plain text are escaped as in a Python string, and control characters in a path as in properties
    text. Each option has a line, whether it was given or not; without a marker of null that line is empty, and an empty
    marker is "".
    """
    values: dict[str, object] = {
        "pid": os.getpid(),
        "store": ",".join(in_a_line(absolute_path(log_dir.path)) for log_dir in store.log_dirs),
        "mode": store.mode.value,
        "isolation": options.isolation.value,
        "damage": options.damage.value,
        "list_limit": options.list_limit,
        "default_partitions": options.default_partitions,
        "allow_delete": "true" if options.may_delete else "false",
        "kv_separator": _escaped(options.key_values.separator),
        "null_marker": _marker(options.key_values.null_marker),
        **further,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def in_a_line(path: str | Path) -> str:
    """Return the path in one line, with backslashes and control characters escaped as in properties text."""
    return field(str(path))


def readme_text(store: Store, rights: Rights) -> str:
    """Return a description of this tree, with commands that work in it now."""
    examples = list(_examples(store, rights))
    width = max((len(example.command) for example in examples), default=0)
    lines = [
        f"kafkafs {kafkafs.__version__} shows a Kafka log as files, {store.mode.value}. It is in",
        "",
        *(f"    {in_a_line(log_dir.path)}" for log_dir in store.log_dirs),
        "",
        "Each topic is a directory, and in it is one for each partition. From the",
        "directory above this one, try:",
        "",
        *(f"    {example.command:{width}}  # {example.meaning}" for example in examples),
        "",
        _HERE,
    ]
    return "\n".join(lines)


def _examples(store: Store, rights: Rights) -> Iterator[_Example]:
    is_writable = store.mode is Mode.READ_WRITE
    path = _example_partition(store, rights)
    if path is not None:
        partition = str(path).removeprefix("/")
        yield _Example(f"cat {partition}/info", "offsets, sizes, times")
        yield _Example(f"cat {partition}/offset/latest", "the last record: its value")
        yield _Example(f"cat {partition}/offset/last-10..latest.jsonl", "the last ten, as JSON")
        yield _Example(f"cat {partition}/by-time/-1h..now.jsonl", "what was written in the last hour")
        yield _Example(f"head -3 {partition}/values", "values, a line each")
        yield _Example(f"tail -f {partition}/records.jsonl", "every record, and those to come")
        yield _Example(f"cat {partition}/transactions", "which ones hang, which were aborted")
        yield _Example(f"cat {partition}/retention.plan", "what would be deleted now, and why")
        by_time = f"{CONTROL_NAME}/{BY_TIME_NAME}" if BY_TIME_NAME in store.topics.inventory.topics else BY_TIME_NAME
        yield _Example(f"cat {by_time}/-1h", "where the last hour begins, everywhere")
        if is_writable:
            yield _Example(f"echo hello >> {partition}/append", "append a record")
            yield _Example(f"cat {path.topic.topic}/config", "settings; append key=value to change one")
    if is_writable:
        yield _Example("mkdir new-topic", "make a topic")


def _example_partition(store: Store, rights: Rights) -> PartitionPath | None:
    """Return a partition for examples: if possible, one with records, of a topic that is not the brokers' own.

    It tells nothing of a partition that some readers of the text may not look into.
    """
    inventory = store.topics.inventory
    names = sorted(
        (topic for topic in inventory.topics if topic != CONTROL_NAME),
        key=lambda topic: topic.startswith(_INTERNAL_PREFIX),
    )
    paths = [
        PartitionPath(TopicPath(topic), partition)
        for topic in names
        for partition in islice(inventory.topics[topic], _PARTITIONS_LOOKED_AT_MAX)
    ][:_PARTITIONS_LOOKED_AT_MAX]
    return next((path for path in paths if _has_batches(store, rights, path)), paths[0] if paths else None)


def _has_batches(store: Store, rights: Rights, path: PartitionPath) -> bool:
    try:
        directory = store.topics.directory(path.topic.topic, path.partition)
        if rights.is_shared and rights.is_reached_by_more(rights.of_log(directory), rights.of_store()):
            return False
        bases = live_offsets(directory.names(), Kind.LOG)[-_SEGMENTS_LOOKED_AT_MAX:]
        logs = (directory.status(str(FileName(base_offset, Kind.LOG))) for base_offset in bases)
        return any(status is not None and status.size_bytes for status in logs)
    except (OSError, StorageError):  # removed or unreadable: no example
        return False


def _marker(text: bytes | None) -> str:
    return "" if text is None else _escaped(text) or '""'


def _escaped(text: bytes) -> str:
    return text.decode("latin-1").encode("unicode_escape").decode("ascii")
