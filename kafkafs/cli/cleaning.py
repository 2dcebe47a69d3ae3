"""What commands that open a store share: its settings, the choice of partitions, and the names of fields."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.failures import say
from storage.clock import Clock
from storage.files import Files, NamedFiles
from storage.log_dir import CLUSTER_METADATA, COMPACTED_BY_BROKERS, read_server_properties
from storage.store import Mode, Store, recover_unclosed_logs
from storage.topics import MAY_SET_IT, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkafs.cli.finishing import Change
    from storage.log_dir import Partition

_LEFT_OUT = frozenset({"device", "inode"})  # which tell existing files apart, and mean nothing to users
_NAMED_MAX = 10
# What a file of the broker says, or a log that cannot be read now, is not to be written down again as somebody has it
# in mind.
_MENDED_ELSEWHERE = re.compile(f"{re.escape(MAY_SET_IT)}|{re.escape(UNREADABLE)}")


server_properties_option = click.option(
    "--server-properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A broker's settings, used where a topic sets none.",
)


def opened_store(
    paths: Sequence[Path], server_properties: Path | None, *, is_changed: bool, change: Change | None = None
) -> AbstractContextManager[Store]:
    """The store with the settings of a broker, if there are such: open for writing if it is to be changed.

    A store that is changed is left closed properly, as `left_clean` says.
    """
    store = Store.open(
        paths,
        mode=Mode.READ_WRITE if is_changed else Mode.READ_ONLY,
        files=Files(),
        clock=Clock(),
        broker_settings={} if server_properties is None else read_server_properties(NamedFiles(), server_properties),
    )
    return left_clean(store, change) if is_changed else store


@contextmanager
def left_clean(store: Store, change: Change | None) -> Iterator[Store]:
    """Close the store after the block, and recover before what of it was not closed properly and the block left.

    So one unclean end is said by one command, and costs the next one nothing. A block that ends with an error, or whose
    `change` is interrupted, leaves the store as it is.
    """
    with store:
        unclosed = store.partitions_to_recover()
        yield store
        opened = sum(partition in store.open_logs() for partition in unclosed)
        rest = recover_unclosed_logs(store, Clock(), is_stopped=lambda: change is not None and change.is_interrupted)
        recovered = opened + rest.recovered
        if (recovered or rest.failures) and not rest.is_given_up:
            more = "".join(f"; {failure}" for failure in rest.failures[:_NAMED_MAX])
            if len(rest.failures) > _NAMED_MAX:
                more += f"; and {len(rest.failures) - _NAMED_MAX} more"
            were = "was" if recovered == 1 else "were"
            say(f"the store was not closed properly: {counted(recovered, 'log')} {were} recovered{more}")


def chosen_partitions(store: Store, topics: Sequence[str]) -> list[Partition]:
    """The partitions of some topics, or of all if none are named; raises `UnknownPartitionError` for no topic."""
    names = dict.fromkeys(topics or store.topics.inventory.topics)
    return [(topic, partition) for topic in names for partition in store.topics.partitions(topic)]


def say_what_is_unknown(store: Sequence[Path], unknown: Mapping[str, str]) -> None:
    """Tell that settings of some topics are unknown, and why, and name what makes them known.

    The cluster's metadata is left out: no command of ours takes settings for it.
    """
    named = [topic for topic in unknown if topic != CLUSTER_METADATA]
    mended_elsewhere = [topic for topic in named if _MENDED_ELSEWHERE.search(unknown[topic])]
    if mended_elsewhere:
        why = unknown[mended_elsewhere[0]].rpartition("unknown: ")[2]
        say(f"the settings of {_first_of(mended_elsewhere)} are unknown: {why}")
    others = [topic for topic in named if topic not in mended_elsewhere]
    if others:
        command = shlex.join(["kafkafs", "topics", "config", ",".join(map(str, store)), others[0]])
        policy = "compact`" if others[0] in COMPACTED_BY_BROKERS else "delete` (or compact)"
        say(
            f"the settings of {_first_of(others)} are unknown, since a broker made it and may have been told more; "
            f"`{command} cleanup.policy={policy}, with --rw and the other settings that it had, makes them known"
        )


def _first_of(topics: Sequence[str]) -> str:
    first, *others = topics
    return first + (f" and of {counted(len(others), 'more topic')}" if others else "")


def counted(number: int, what: str) -> str:
    """A number of things, for people."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def row_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan or a report, under kafkafs' names of fields."""
    return {camel(key): _value(value) for key, value in said.items() if key not in _LEFT_OUT}


def camel(name: str) -> str:
    """A field's name as it is in the envelope; what is counted in bytes alone is called so."""
    first, *others = name.removeprefix("size_").split("_")
    return first + "".join(word.capitalize() for word in others)


def _value(value: object) -> object:
    if isinstance(value, dict):
        return row_of(value)
    return [_value(each) for each in value] if isinstance(value, list | tuple) else value
