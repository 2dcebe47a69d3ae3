"""A size that grew is told only after the pages were dropped that may end before it."""

from __future__ import annotations

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kafkafs.mount import tails
from kafkafs.mount.tails import Tail
from kafkafs.tree.node import Attributes

KEY = 7


class Kernel:
    """What drops pages; it waits for `may_drop`."""

    def __init__(self) -> None:
        self.dropped: list[int] = []
        self.may_drop = threading.Event()
        self.may_drop.set()

    def invalidate_inode(self, key: int) -> None:
        self.may_drop.wait(60)
        self.dropped.append(key)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(tails.pyfuse3, "invalidate_inode", made.invalidate_inode)  # type: ignore[attr-defined]
    return made


def told(tail: Tail, size_bytes: int | None) -> int | None:
    return tail.limited(Attributes(size_bytes)).size_bytes


def read(tail: Tail) -> None:
    tail.read_begins()
    tail.read_ends()


def test_sizes_are_told_at_once_before_anything_was_read(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        assert told(tail, 10) == 10
        await tail.raise_to(20)
        assert told(tail, 20) == 20

    trio.run(main)
    assert kernel.dropped == []


def test_pages_are_dropped_before_a_larger_size_is_told(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        read(tail)
        assert told(tail, 20) == 10
        await tail.raise_to(20)
        assert kernel.dropped == [KEY]
        assert told(tail, 20) == 20
        await tail.raise_to(30)
        assert told(tail, 30) == 30, "nothing was read since"
        assert kernel.dropped == [KEY]

    trio.run(main)


def test_a_read_under_way_counts_and_is_waited_for(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        tail.read_begins()
        assert told(tail, 20) == 10
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.raise_to, 20)
            await wait_all_tasks_blocked()
            assert kernel.dropped == []
            tail.read_ends()
        assert kernel.dropped == [KEY]
        assert told(tail, 30) == 30, "it ended before the pages were dropped"


def test_a_read_that_goes_on_is_not_waited_for_for_ever(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        tail.read_begins()
        await tail.raise_to(20)
        assert kernel.dropped == [KEY]
        tail.read_ends()
        assert told(tail, 30) == 20

    trio.run(main)


def test_nothing_larger_is_told_while_pages_are_being_dropped(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        read(tail)
        kernel.may_drop.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.raise_to, 20)
            await wait_all_tasks_blocked()
            assert told(tail, 30) == 10
            nursery.start_soon(tail.raise_to, 30)
            await wait_all_tasks_blocked()
            kernel.may_drop.set()
        assert told(tail, 30) == 30

    trio.run(main)


def test_a_size_that_was_found_earlier_is_not_told_after_a_larger_one(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(20)
        assert told(tail, 10) == 20
        assert told(tail, None) is None
        assert told(tail, 20) == 20

    trio.run(main)
    assert kernel.dropped == []


def test_a_process_that_has_the_file_open_is_told_the_next_time(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY)
        await tail.raise_to(10)
        read(tail)
        tail.raise_soon(20)
        tail.raise_soon(20)
        assert told(tail, 20) == 10
        with trio.fail_after(60):
            while told(tail, 20) == 10:
                await trio.lowlevel.checkpoint()
        assert kernel.dropped == [KEY]

    trio.run(main)
