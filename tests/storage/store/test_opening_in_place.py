"""The thread of an event loop opens no log to be written, and does not wait for another thread that does."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock

from storage.budget import MEMORY, MustWaitError
from storage.store import LogOpener, Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.log import Log
    from storage.store.log_opener import LogRequest
    from storage.topics.checkpointing import PartitionCheckpoints


def outcome_in_loop(ask: Callable[[], object]) -> object:
    """What a thread gets that others need."""
    found: list[object] = []

    def run() -> None:
        MEMORY.never_lease_here()
        try:
            found.append(ask())
        except MustWaitError as error:
            found.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    with Store.create(["/a"], files=files, clock=StandingClock()) as store:
        store.topics.create("t", 1)
    return files


def test_a_log_is_recovered_in_another_thread(files: MemoryFiles) -> None:
    with Store.open(["/a"], mode=Mode.READ_WRITE, files=files, clock=StandingClock()) as store:
        assert isinstance(outcome_in_loop(lambda: store.log("t", 0)), MustWaitError)
        log = store.log("t", 0)
        assert outcome_in_loop(lambda: store.log("t", 0)) is log


def test_an_event_loop_does_not_wait_until_a_log_is_open(files: MemoryFiles) -> None:
    is_opening, goes_on = Event(), Event()
    opener = LogOpener()

    def open_log(request: LogRequest, checkpoints: PartitionCheckpoints) -> Log:
        is_opening.set()
        goes_on.wait()
        return opener(request, checkpoints)

    with Store.open(["/a"], mode=Mode.READ_WRITE, files=files, clock=StandingClock(), open_log=open_log) as store:
        opening = Thread(target=lambda: store.log("t", 0))
        opening.start()
        is_opening.wait()
        assert isinstance(outcome_in_loop(lambda: store.log("t", 0)), MustWaitError)
        goes_on.set()
        opening.join()
        assert outcome_in_loop(lambda: store.log("t", 0)) is store.log("t", 0)
