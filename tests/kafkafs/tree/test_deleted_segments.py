"""A reader that has a view open when retention deletes its segments finishes undisturbed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import GoneError, NotThereError
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.files import Files
from storage.store.cleaning import StoreRetention
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkafs.tree.node import Reading

SETTINGS = {"segment.bytes": "3000", "segment.index.bytes": "1200", "retention.bytes": "1"}
DELAY_MS = 60_000
ALL_BYTES = 10**7


class Lab:
    """A topic whose segments, except for the last, retention deletes."""

    def __init__(self, store: Store, clock: StandingClock) -> None:
        store.topics.create("orders", 1, SETTINGS)
        self.store, self.clock = store, clock
        self.log = store.log("orders", 0)
        for number in range(40):
            self.log.append_as_leader(sent(b"%04d" % number * 100))
        self.tree = Tree(store, TreeOptions(), clock=clock, sizes=SizeCache(Files(), None), control=ControlNodes())

    def opened(self, name: str) -> Reading:
        file = self.tree.node(parse_path(f"orders/0/{name}", self.store.topics.inventory.topics))
        assert isinstance(file, File)
        return file.open()

    def delete(self) -> None:
        retentions = StoreRetention(self.store, self.clock)
        retentions.apply("orders", 0, retentions.plan("orders", 0))
        assert self.log.view.start_offset == 36

    def remove(self) -> None:
        self.clock.ms += DELAY_MS
        due = self.store.topics.removals.due(self.clock.ms)
        assert due
        for doomed in due:
            self.store.topics.removals.remove(doomed)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    clock = StandingClock()
    with Store.create([tmp_path / "store"], files=Files(), clock=clock) as store:
        yield Lab(store, clock)


@pytest.mark.parametrize("name", ["offset/all", "offset/3", "offset/2..9.hex"])
def test_a_reader_of_records_finishes(lab: Lab, name: str) -> None:
    whole = bytes(lab.opened(name).read(0, ALL_BYTES))
    held, untouched = lab.opened(name), lab.opened(name)
    assert held.read(0, 100) == whole[:100]
    lab.delete()
    assert held.read(100, ALL_BYTES) == whole[100:]
    assert untouched.read(0, ALL_BYTES) == whole
    lab.remove()
    with suppress(GoneError):
        assert held.read(0, ALL_BYTES) == whole  # what was decoded of late is still known
    with suppress(NotThereError):
        assert whole.endswith(bytes(lab.opened(name).read(0, ALL_BYTES)))


@pytest.mark.parametrize("name", ["values", "records.jsonl"])
def test_a_reader_of_a_stream_is_shown_the_same_bytes_or_told_that_they_are_gone(lab: Lab, name: str) -> None:
    whole = bytes(lab.opened(name).read(0, ALL_BYTES))
    held, untouched = lab.opened(name), lab.opened(name)
    assert held.read(0, 100) == whole[:100]
    tail = bytes(lab.opened(name).read(len(whole) - 50, 50))
    for change in (lab.delete, lab.remove):
        change()
        for reading in (held, untouched):
            with suppress(GoneError):
                assert reading.read(100, ALL_BYTES) == whole[100:]
            assert reading.read(len(whole) - 50, 50) == tail
    assert whole.endswith(bytes(lab.opened(name).read(0, ALL_BYTES)))
