"""Stores whose internal topics hold mutated records: every view ends as it may, and within its memory.

KAFKAFS_INTERNAL_MUTATIONS says how many records are mutated; `scripts/prove internal` takes 100,000, a store after
another in one process, whose peak memory it prints.
"""

from __future__ import annotations

import os
import random
import struct
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from internal_messages import random_fields
from internal_mutations import mutated
from memory_logs import StandingClock

from kafkafs.content import SizeCache
from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import InternalTopic, decoder_of, newest_decoder_of
from kafkafs.dump.text import TextForm
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import TreeError
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.internal.definitions import table
from storage.log.producers.state import AppendOrigin
from storage.record import batches_of_rows
from storage.record.kernel.message_writer import write_message
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.node import Directory, File

MUTATIONS: Final = int(os.environ.get("KAFKAFS_INTERNAL_MUTATIONS", "2000"))
SEED: Final = int(os.environ.get("KAFKAFS_INTERNAL_SEED", "12"))
RECORDS_PER_STORE: Final = 1000
SMALL: Final = {"segment.index.bytes": "4096"}
"""Indexes that do not take ten megabytes each in the memory that holds the store."""
TOPICS: Final = {
    InternalTopic.OFFSETS: "offsets",
    InternalTopic.TRANSACTIONS: "transactions",
    InternalTopic.SHARES: "shares",
    InternalTopic.METADATA: "metadata",
    InternalTopic.REMOTE_LOGS: "remote_logs",
}
TYPED: Final = (InternalTopic.METADATA, InternalTopic.REMOTE_LOGS)
READ_BYTES_MAX: Final = 8 * 1024 * 1024

Pair = tuple[bytes | None, bytes | None]


def records(topic: InternalTopic, chance: random.Random) -> Iterator[Pair]:
    """A record of each type, in a version by chance; now and then about the same group, and as a tombstone."""
    definitions = table(TOPICS[topic])
    if topic in TYPED:
        for definition in definitions:
            version = chance.choice([*filter(definition.knows, range(definition.newest_version + 1))])
            body = write_message(definition.schema(version), random_fields(chance, definition.schema(version)))
            yield None, bytes([1, definition.api_key or 0, version]) + body
        return
    sides: dict[int, dict[bool, Any]] = {}
    for definition in definitions:
        if definition.api_key is not None:
            sides.setdefault(definition.api_key, {})[definition.name.endswith("Key")] = definition
    for number, side in sides.items():
        key, value = side[True], side[False]
        version = chance.choice([*filter(value.knows, range(value.newest_version + 1))])
        fields = random_fields(chance, key.schema(0)) | {chance.choice(["group", "groupId"]): "g"}
        known = {name for name, *_ in key.schema(0).definition}
        fields = {name: each for name, each in fields.items() if name in known}
        body = write_message(value.schema(version), random_fields(chance, value.schema(version)))
        key_bytes = struct.pack(">h", number) + write_message(key.schema(0), fields)
        yield key_bytes, None if chance.random() < 0.05 else struct.pack(">h", version) + body


def rows(
    topic: InternalTopic, chance: random.Random, count: int
) -> list[tuple[int, bytes | None, bytes | None, tuple]]:
    """Return this many records, most of them mutated."""
    made: list[tuple[int, bytes | None, bytes | None, tuple]] = []
    while len(made) < count:
        for key, value in records(topic, chance):
            changed = [
                data if data is None or chance.random() < 0.3 else mutated(chance, data) for data in (key, value)
            ]
            made.append((1_700_000_000_000 + len(made), *changed, ()))
    return made[:count]


def test_every_view_of_mutated_records_ends() -> None:
    chance = random.Random(SEED)
    done = read = 0
    while done < MUTATIONS:
        count = min(RECORDS_PER_STORE, MUTATIONS - done)
        read += views(chance, count)
        done += count
    print(f"{done} mutated records, of which the views had {read} bytes")
    assert read > done


def views(chance: random.Random, count: int) -> int:
    """Make a store of mutated records, and read all that there is; returns how many bytes that was."""
    files, clock = MemoryFiles(), StandingClock()
    read = 0
    with Store.create(["/a"], files=files, clock=clock) as store:
        store.topics.create("orders", 2, SMALL)
        for topic in InternalTopic:
            if topic is not InternalTopic.METADATA:
                store.topics.create(topic.value, 1, SMALL)
        for topic in InternalTopic:
            some = rows(topic, chance, count // len(InternalTopic) + 1)
            batches = list(batches_of_rows(some, base_offset=0 if topic is InternalTopic.METADATA else None))
            if topic is InternalTopic.METADATA:
                write_metadata(files, b"".join(map(bytes, batches)), chance)
            else:
                log: Any = store.log(topic.value, 0)
                for batch in batches:
                    log.append_as_leader(batch, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    with (
        Store.open(["/a"], mode=Mode.READ_ONLY, files=files, clock=clock) as store,
        closing(SizeCache(files, None)) as sizes,
    ):
        tree = Tree(store, TreeOptions(), clock=clock, sizes=sizes, control=ControlNodes())
        for path in ("/.kafkafs/groups", "/.kafkafs/cluster"):
            directory: Directory = tree.node(parse_path(path))  # type: ignore[assignment]
            read += sum(whole(tree, f"{path}/{name}") for name in directory.names())
        read += whole(tree, "/.kafkafs/transactions")
        for topic in InternalTopic:
            path = f"/{topic.value}/0/segments"
            directory = tree.node(parse_path(path))  # type: ignore[assignment]
            read += sum(whole(tree, f"{path}/{name}") for name in directory.names() if name.endswith(".txt"))
            read += dumped(files, topic)
    return read


def write_metadata(files: MemoryFiles, data: bytes, chance: random.Random) -> None:
    """Lay out a metadata log as a broker does, and beside it a quorum's state that is mutated too."""
    directory = "/a/__cluster_metadata-0"
    files.make_directory(directory)
    state = (
        b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,"clusterId":"","appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    for name, content in ((f"{0:020}.log", data), ("quorum-state", mutated(chance, state))):
        with files.open_writing(f"{directory}/{name}", create=True) as file:
            file.write_at(0, [content])


def whole(tree: Tree, path: str) -> int:
    """Read a file to its end, or to the error that is there."""
    size = 0
    try:
        node: File = tree.node(parse_path(path))  # type: ignore[assignment]
        node.attributes()
        reading = node.open()
        try:
            while data := reading.read(size, READ_BYTES_MAX):
                size += memoryview(data).nbytes
        finally:
            reading.close()
    except TreeError:
        pass
    return size


def dumped(files: MemoryFiles, topic: InternalTopic) -> int:
    """How much the dumps of a log in all forms have."""
    size = 0
    decoders = (decoder_of(topic, "3.9"), decoder_of(topic, "4"), newest_decoder_of(topic))
    for form in (*(TextForm(decoder=decoder) for decoder in decoders), JsonForm(decoder=decoders[0])):
        with files.open_reading(f"/a/{topic.value}-0/{0:020}.log") as file:
            size += sum(len(line) for run in LogDump(file, form, Selection()) for line in run)
    return size
