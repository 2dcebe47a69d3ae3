"""Very many producers of one log: they take their memory from the budget, and give it back."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, LogOnMemory, StandingClock

from storage.budget import MEMORY, MustWaitError
from storage.errors import MemoryBudgetError
from storage.log import AppendOrigin, ProducerState
from storage.log.producers.followed import FollowedProducers
from storage.log.producers.producers import PRODUCER_BYTES, RESERVED_TOGETHER, ProducerStates
from storage.log.producers.snapshot import SnapshotFiles
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.files import Directory
    from storage.record import RecordBatch

pytestmark = pytest.mark.usefixtures("settled_memory")

NEVER_MS = 2**62
END = 100
RESERVED_BYTES = RESERVED_TOGETHER * PRODUCER_BYTES


@pytest.fixture(scope="module")
def directory() -> Directory:
    """A directory with a snapshot of more producers than go without memory of the budget."""
    made = MemoryFiles().directory("/")
    states = (ProducerState(number, 0, -1, 0, END - 1) for number in range(2 * RESERVED_TOGETHER))
    SnapshotFiles(made).write(END, states, sync=False)
    return made


@contextmanager
def nothing_left(left_bytes: int = 0) -> Iterator[None]:
    """Have other work take the budget but for so many bytes."""
    taken = MEMORY.left_bytes - left_bytes
    assert MEMORY.take_unused(taken)
    try:
        yield
    finally:
        MEMORY.give(taken)


def loaded(directory: Directory) -> ProducerStates:
    producers = ProducerStates(directory, expiration_ms=NEVER_MS, read_only=True)
    producers.truncate_and_reload(0, END, 0)
    return producers


def test_producers_take_memory_until_they_are_collected(directory: Directory) -> None:
    before = MEMORY.left_bytes
    producers = loaded(directory)
    assert len(producers.states()) == 2 * RESERVED_TOGETHER
    assert before - 2 * RESERVED_BYTES <= MEMORY.left_bytes <= before - RESERVED_BYTES
    del producers
    assert MEMORY.left_bytes == before


def test_producers_that_expire_give_memory_back() -> None:
    made = MemoryFiles().directory("/")
    states = (ProducerState(number, 0, -1, 0) for number in range(2 * RESERVED_TOGETHER))
    SnapshotFiles(made).write(END, states, sync=False)
    before = MEMORY.left_bytes
    producers = ProducerStates(made, expiration_ms=10)
    producers.truncate_and_reload(0, END, 0)
    assert producers.is_large
    producers.expire(10)
    assert not producers.is_large
    assert MEMORY.left_bytes == before


def test_producers_without_room_are_not_loaded(directory: Directory) -> None:
    with nothing_left(RESERVED_BYTES // 2), pytest.raises(MemoryBudgetError, match=r"^the 3\d{4} producers of the log"):
        loaded(directory)


def test_a_producer_more_is_refused_before_it_writes(directory: Directory, data: Callable[..., RecordBatch]) -> None:
    producers = loaded(directory)
    batch = data(producer_id=2**40)
    with nothing_left(), pytest.raises(MemoryBudgetError):
        producers.check([batch], origin=AppendOrigin.CLIENT)
    assert producers.check([batch], origin=AppendOrigin.CLIENT) == [None]


def test_a_thread_that_others_need_does_not_wait_for_one_that_reads(directory: Directory) -> None:
    """The event loop of a mount asks for the end of a log while a thread reads a million producers of it."""
    followed = FollowedProducers(StandingClock(), directory, expiration_ms=NEVER_MS)
    raised: list[Exception] = []

    def ask() -> None:
        MEMORY.never_lease_here()
        try:
            followed.states((), END)
        except MustWaitError as error:
            raised.append(error)

    with followed._lock:
        thread = Thread(target=ask)
        thread.start()
        thread.join()
    assert len(raised) == 1
    assert not followed.states((), END).states()  # there is no segment that the snapshot is of


def test_a_followed_log_forgets_producers_that_others_need_memory_for() -> None:
    lab = LogOnMemory()
    for sequence in range(END):
        lab.produce(b"value", sequence)
    segments = lab.log.view.segments
    directory = lab.files.directory(DIRECTORY)
    states = (ProducerState(number, 0, -1, 0, END - 1) for number in range(2 * RESERVED_TOGETHER))
    SnapshotFiles(directory).write(END, states, sync=False)
    before = MEMORY.left_bytes
    followed = FollowedProducers(StandingClock(), directory, expiration_ms=NEVER_MS)
    producers = followed.states(segments, END)
    assert followed.states(segments, END) is producers
    del producers
    assert MEMORY.left_bytes < before
    assert MEMORY.take(before)
    MEMORY.give(before)
    assert MEMORY.left_bytes == before
    assert len(followed.states(segments, END).states()) == 2 * RESERVED_TOGETHER
