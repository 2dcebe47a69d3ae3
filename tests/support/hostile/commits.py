"""Ledgers and staged files of every wrong shape."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from hostile.store import RECORDS, Case
from storage.commit.ledger import LEDGER_NAME
from storage.files import Files
from storage.ids import format_id
from storage.log.partition_metadata import read_topic_id
from storage.record import batches_of_rows
from storage.record.kernel.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostile.store import HostileStore, Scale

STAGED: Final = f"kafkafs-staged-{7:032x}"
NESTED: Final = b"[" * 200_000
WHOLE_INDEX: Final[dict[str, Any]] = {"topics": [["victim", 1, None, False]], "runs": []}

INDEXES: Final[dict[str, bytes]] = {
    "a list": b"[]",
    "nothing": b"",
    "an empty object": b"{}",
    "not UTF-8": b"\xff\xfe{}",
    "nested": NESTED,
    "nested objects": b'{"topics":' * 100_000,
    "a text as position": b'{"topics":[["victim",1,null,false]],"runs":[["victim",0,"a",1,1]]}',
    "a position of 2^80": b'{"topics":[["victim",1,null,false]],"runs":[["victim",0,%d,1,1]]}' % 2**80,
    "a negative position": b'{"topics":[["victim",1,null,false]],"runs":[["victim",0,-1,1,1]]}',
    "1e400": b'{"topics":[["victim",1e400,null,false]],"runs":[]}',
    "a number of 5,000 digits": b'{"topics":[["victim",%s,null,false]],"runs":[]}' % (b"9" * 5000),
    "NaN": b'{"topics":[["victim",NaN,null,false]],"runs":[]}',
    "a topic that is a path": b'{"topics":[["../outside",1,null,true]],"runs":[["../outside",0,0,1,1]]}',
    "a topic that it does not know": b'{"topics":[],"runs":[["victim",0,0,1,1]]}',
    "an id that is none": b'{"topics":[["victim",1,"x",false]],"runs":[]}',
    "half a character": b'{"topics":[["\\ud800",1,null,true]],"runs":[["\\ud800",0,0,1,1]]}',
    "half a character in a run": b'{"topics":[],"runs":[["\\ud800",0,0,1,1]]}',
    "null": b"null",
    "runs of null": b'{"topics":null,"runs":null}',
}

LEDGERS: Final[dict[str, bytes]] = {
    "nested": NESTED,
    "1e400": b'{"version":1,"sequence":1e400,"applied":{}}',
    "a version of 2^80": b'{"version":%d,"sequence":1,"applied":{}}' % 2**80,
    "a newer version": b'{"version":2}',
    "a list": b"[]",
    "NUL bytes": bytes(4096),
    "not UTF-8": b"\xff\xff",
    "cut": b'{"version":1,"sequence":1,"appl',
    "applied as a list": b'{"version":1,"sequence":1,"applied":[]}',
    "applied of 2^80": b'{"version":1,"sequence":1,"applied":{"a":%d}}' % 2**80,
    "a pending text": b'{"version":1,"sequence":1,"applied":{},"pending":"x"}',
    "a pending commit of nothing": b'{"version":1,"sequence":1,"applied":{},"pending":{}}',
}

STAGED_NAMES: Final = (
    "meta.properties",
    "kafkafs-staged-../meta.properties",
    "../outside/secret",
    "kafkafs-staged-../../outside/secret",
    "/etc/hostname",
    "",
    "victim-0",
)


def staged_file(index: bytes, body: bytes = b"") -> bytes:
    """Return a staged file with this index, and the right checksum of it."""
    return body + index + struct.pack(">II8s", len(index), crc32c(index), b"kafkafs1")


def pending(
    store: HostileStore, *, staged: list[str], first: int = RECORDS, end: int = RECORDS + 1, **fields: object
) -> bytes:
    """Return a ledger whose pending commit has staged files and a range of the victim's offsets."""
    topic_id = read_topic_id(Files().directory(store.victim))
    extents = [["victim", 0, "" if topic_id is None else format_id(topic_id), first, end]]
    intent = {"transaction": ["app", 1], "staged": staged, "extents": extents, **fields}
    return json.dumps({"version": 1, "sequence": 1, "applied": {}, "pending": intent}).encode()


def with_ledger(data: bytes) -> Callable[..., None]:
    """Return what writes these bytes as ledger."""

    def change(store: HostileStore, _: Scale) -> None:
        (store.path / LEDGER_NAME).write_bytes(data)

    return change


def with_staged(index: bytes) -> Callable[..., None]:
    """Return what writes a staged file with this index, and a ledger in which its commit is pending."""

    def change(store: HostileStore, _: Scale) -> None:
        (store.path / STAGED).write_bytes(staged_file(index))
        (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED]))

    return change


def naming(name: str) -> Callable[..., None]:
    """Return what writes a ledger whose pending commit has a file of this name."""

    def change(store: HostileStore, _: Scale) -> None:
        (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[name], first=0, end=2**62))

    return change


def of_the_whole_log(store: HostileStore, _: Scale) -> None:
    """Write a ledger whose pending commit claims all records of the log; its staged file is gone."""
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED], first=0, end=RECORDS))


def of_huge_numbers(store: HostileStore, _: Scale) -> None:
    """Write a ledger whose pending commit ends at 2^80."""
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED], first=0, end=2**80))


def huge_index(store: HostileStore, _: Scale) -> None:
    """Write a staged file whose index is said to be 4 GB long, as the file is."""
    with (store.path / STAGED).open("wb") as file:
        file.truncate(2**32)
        file.seek(2**32)
        file.write(struct.pack(">II8s", 2**32 - 1, 0, b"kafkafs1"))
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED]))


def sound_commit(store: HostileStore, _: Scale) -> None:
    """Write a staged file and a ledger that are sound, but for a partition number that is not there."""
    (batch,) = batches_of_rows([(1, None, b"value", ())], base_offset=None)
    body = bytes(batch.data if hasattr(batch, "data") else batch)
    runs = [["victim", 0, 0, len(body), 1], ["victim", 7, 0, len(body), 1]]
    (store.path / STAGED).write_bytes(staged_file(json.dumps({**WHOLE_INDEX, "runs": runs}).encode(), body))
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED]))


COMMIT_CASES: Final = (
    *(Case(f"a staged file with {what} in its index", "staged", with_staged(index)) for what, index in INDEXES.items()),
    *(Case(f"a ledger of {what}", "ledger", with_ledger(data)) for what, data in LEDGERS.items()),
    *(Case(f"a ledger with {name!r} as a staged file", "ledger", naming(name)) for name in STAGED_NAMES),
    Case("a ledger that claims the whole log", "ledger", of_the_whole_log),
    Case("a ledger that ends at 2^80", "ledger", of_huge_numbers),
    Case("a staged file with an index of 4 GB", "staged", huge_index),
)
