"""A reader that has a file open when compaction replaces its segments finishes with the old contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.content.held_files import HeldFiles
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import GoneError
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.files import Files
from storage.store.cleaning import StoreCompaction
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "3000", "segment.index.bytes": "1200"}
NAMES = ["values", "records.jsonl", "offset/all", "offset/all.jsonl"]
ALL_BYTES = 10**7


class Lab:
    """A compacted topic whose forty records have two keys."""

    def __init__(
        self, directory: Path, clock: StandingClock, *, counted_bytes_max: int, held: HeldFiles | None = None
    ) -> None:
        self.store = Store.create([directory], files=Files(), clock=clock)
        self.store.topics.create("orders", 1, SETTINGS)
        self.clock = clock
        self.log = self.store.log("orders", 0)
        for number in range(40):
            self.log.append_as_leader(sent(b"%04d" % number * 100, key=b"%d" % (number % 2)))
        options = TreeOptions(counted_bytes_max=counted_bytes_max)
        sizes = SizeCache(Files(), None, held=held)
        self.tree = Tree(self.store, options, clock=clock, sizes=sizes, control=ControlNodes())

    def file(self, name: str) -> File:
        file = self.tree.node(parse_path(f"orders/0/{name}", self.store.topics.inventory.topics))
        assert isinstance(file, File)
        return file

    def compact(self) -> None:
        compactions = StoreCompaction(self.store, self.clock, wait=lambda _: None)
        report = compactions.apply("orders", 0, compactions.plan("orders", 0))
        assert report.records.kept == 2

    def remove(self) -> None:
        self.clock.ms += 60_000
        for doomed in self.store.topics.removals.due(self.clock.ms):
            self.store.topics.removals.remove(doomed)


@pytest.mark.parametrize("counted_bytes_max", [0, 10**6])
@pytest.mark.parametrize("begun_bytes", [0, 1, 5000])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_open_is_read_to_its_end(tmp_path: Path, name: str, begun_bytes: int, counted_bytes_max: int) -> None:
    lab = Lab(tmp_path / "store", StandingClock(), counted_bytes_max=counted_bytes_max)
    whole = bytes(lab.file(name).open().read(0, ALL_BYTES))
    reading = lab.file(name).open()
    if begun_bytes:
        assert bytes(reading.read(0, begun_bytes)) == whole[:begun_bytes]
    lab.compact()
    lab.file(name).attributes()  # another reader looks at the present contents
    assert bytes(reading.read(begun_bytes, ALL_BYTES)) == whole[begun_bytes:]
    assert len(bytes(lab.file(name).open().read(0, ALL_BYTES))) < len(whole) // 4
    lab.store.close()


@pytest.mark.parametrize("name", ["values", "records.jsonl"])
def test_it_is_held_open_once_the_files_are_removed(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path / "store", StandingClock(), counted_bytes_max=0)
    whole = bytes(lab.file(name).open().read(0, ALL_BYTES))
    reading = lab.file(name).open()
    lab.compact()
    lab.remove()
    assert bytes(reading.read(0, ALL_BYTES)) == whole
    lab.store.close()


@pytest.mark.parametrize("name", ["values", "records.jsonl"])
def test_beyond_the_budget_what_was_counted_is_an_error_and_what_comes_follows_on_it(tmp_path: Path, name: str) -> None:
    held = HeldFiles(removed_bytes_max=0)
    lab = Lab(tmp_path / "store", StandingClock(), counted_bytes_max=10**6, held=held)
    reading = lab.file(name).open()
    size_bytes = reading.size_bytes()
    assert size_bytes is not None
    lab.compact()
    lab.remove()
    with pytest.raises(GoneError):
        reading.read(0, ALL_BYTES)
    lab.log.append_as_leader(sent(b"later", key=b"1"))
    grown = reading.size_bytes()
    assert grown is not None
    assert b"later" in bytes(reading.read(size_bytes, grown))
    lab.store.close()
