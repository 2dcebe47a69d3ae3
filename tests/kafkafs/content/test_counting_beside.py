"""Counting that takes much memory ends where readers need that, or once the mount is quiet."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S

from kafkafs.content import SizeCache
from storage.budget import MEMORY
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Endless:
    """A file whose counting takes some of the budget, and ends only if it is cancelled."""

    key = "endless"
    counted_bytes = 0

    def __init__(self, size_bytes: int) -> None:
        self.begun, self.ended = Event(), Event()
        self._size_bytes = size_bytes

    def count_all(self, is_cancelled: Callable[[], bool]) -> None:
        lease = MEMORY.lease(self._size_bytes)
        self.begun.set()
        while not is_cancelled():
            pass
        lease.end()
        self.ended.set()

    def counted(self) -> list[object]:
        return []


@pytest.fixture
def sizes() -> Iterator[SizeCache]:
    """Make the counts of a process, which ends its counting after the test."""
    made = SizeCache(MemoryFiles(), None)
    yield made
    made.close()


def test_much_memory_is_given_back_by_counting_that_goes_on(sizes: SizeCache) -> None:
    large = Endless(64 << 20)
    sizes.begin(large)  # type: ignore[arg-type]
    assert large.begun.wait(DEADLINE_S)
    assert not large.ended.is_set()
    MEMORY.shrink_caches()
    assert large.ended.wait(DEADLINE_S)


def test_counting_that_takes_little_goes_on(sizes: SizeCache) -> None:
    little = Endless(1 << 20)
    sizes.begin(little)  # type: ignore[arg-type]
    assert little.begun.wait(DEADLINE_S)
    MEMORY.shrink_caches()
    before_s = sizes.busy_s()
    while sizes.busy_s() < before_s + 0.05:
        assert not little.ended.is_set()
    sizes.close()
    assert little.ended.is_set()
    assert sizes.busy_s() == 0
