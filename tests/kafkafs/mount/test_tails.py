"""A size that grew is told only after the pages were dropped that may end before it.

Of a file that is open it is told only once the kernel has its last byte.
"""

from __future__ import annotations

import threading
from mmap import PAGESIZE

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kafkafs.mount import tails
from kafkafs.mount.tails import Tail
from kafkafs.tree.errors import GoneError
from kafkafs.tree.node import Attributes

KEY = 7


class Kernel:
    """Drops pages when `may_drop` is set, and takes the bytes at an end when `may_store` is."""

    def __init__(self) -> None:
        self.dropped: list[int] = []
        self.stored: list[tuple[int, bytes]] = []
        self.may_drop = threading.Event()
        self.may_drop.set()
        self.may_store = threading.Event()
        self.may_store.set()

    def invalidate_inode(self, key: int) -> None:
        self.may_drop.wait(60)
        self.dropped.append(key)

    def notify_store(self, key: int, position: int, data: bytes) -> None:
        assert key == KEY
        self.may_store.wait(60)
        self.stored.append((position, data))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(tails.pyfuse3, "invalidate_inode", made.invalidate_inode)  # type: ignore[attr-defined]
    monkeypatch.setattr(tails.pyfuse3, "notify_store", made.notify_store)  # type: ignore[attr-defined]
    return made


def told(tail: Tail, size_bytes: int | None, *, is_open: bool = False) -> int | None:
    return tail.limited(Attributes(size_bytes), is_open=is_open).size_bytes


def newline_at(_: int) -> bytes:
    return b"\n"


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
        tail = Tail(KEY, 10)
        read(tail)
        tail.raise_soon(20, newline_at)
        tail.raise_soon(20, newline_at)
        assert told(tail, 20, is_open=True) == 10
        with trio.fail_after(60):
            while told(tail, 20, is_open=True) == 10:
                await trio.lowlevel.checkpoint()
            await tail.settled()
        assert kernel.dropped == [KEY]
        assert kernel.stored == [(19, b"\n")]

    trio.run(main)


def test_the_kernel_gets_the_end_of_an_open_file_before_its_size_is_told(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY, 10)
        await tail.raise_to(10, newline_at)
        assert kernel.stored == [], "it has no other size"
        assert told(tail, 20, is_open=True) == 10
        kernel.may_store.clear()
        is_settled = False

        async def settle() -> None:
            nonlocal is_settled
            await tail.settled()
            is_settled = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.raise_to, 20, lambda position: b"%d" % (position % 10))
            await wait_all_tasks_blocked()
            nursery.start_soon(settle)
            await wait_all_tasks_blocked()
            assert not is_settled, "a size that is told now may be older than the one that the kernel has"
            assert told(tail, 20, is_open=True) == 20, "a smaller one would take it back"
            kernel.may_store.set()
        assert is_settled
        assert kernel.stored == [(19, b"9")]
        assert kernel.dropped == []

    trio.run(main)


@pytest.mark.parametrize("is_known", [True, False])
def test_sizes_told_before_the_file_was_opened_are_known_when_it_is(kernel: Kernel, *, is_known: bool) -> None:
    async def main() -> None:
        tail = Tail(KEY, 10, is_known=is_known)
        await tail.raise_to(10, newline_at)
        assert kernel.stored == [(9, b"\n")] * (not is_known)
        kernel.stored.clear()
        await tail.raise_to(20)  # all descriptors are closed
        assert kernel.stored == []
        await tail.raise_to(None, newline_at)
        assert kernel.stored == [(19, b"\n")]

    trio.run(main)


def unreadable(_: int) -> bytes:
    raise OSError


def closed(_: int) -> bytes:
    raise GoneError("it was closed")


@pytest.mark.parametrize("byte_at", [unreadable, closed, lambda _: b""], ids=["error", "closed", "nothing"])
def test_an_end_that_cannot_be_read_is_tried_again(kernel: Kernel, byte_at: tails.ByteAt) -> None:
    async def main() -> None:
        tail = Tail(KEY, 10)
        await tail.raise_to(20, byte_at)
        assert kernel.stored == []
        assert told(tail, 20, is_open=True) == 20
        await tail.raise_to(20, newline_at)
        assert kernel.stored == [(19, b"\n")]

    trio.run(main)


def wrong(_: int) -> bytes:
    raise AssertionError("wrong")


@pytest.mark.parametrize("byte_at", [unreadable, closed, wrong], ids=["error", "closed", "bug"])
def test_no_error_beside_the_requests_ends_the_mount(
    kernel: Kernel, byte_at: tails.ByteAt, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tail = Tail(KEY, 10)
        for _ in range(2):
            tail.raise_soon(20, byte_at)
            await wait_all_tasks_blocked()
            await tail.settled()
        tail.raise_soon(20, newline_at)
        with trio.fail_after(60):
            while not kernel.stored:
                await trio.lowlevel.checkpoint()

    trio.run(main)
    assert kernel.stored == [(19, b"\n")]
    assert ("this is a bug" in caplog.text) == (byte_at is wrong)


def test_a_first_byte_of_a_page_makes_the_kernel_have_that_page(kernel: Kernel) -> None:
    async def main() -> None:
        tail = Tail(KEY, 10)
        await tail.raise_to(PAGESIZE, newline_at)
        assert tail.is_free
        await tail.raise_to(PAGESIZE + 1, newline_at)
        assert not tail.is_free
        await tail.raise_to(PAGESIZE + 2, newline_at)
        assert kernel.dropped == [KEY]

    trio.run(main)
