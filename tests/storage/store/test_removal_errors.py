"""What is to be removed gets its turn, whatever went wrong with another directory."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from memory_logs import StandingClock

from storage.log_dir.removals import Doomed
from storage.store import Store
from storage.store.maintenance import Maintenance
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    import pytest


def test_an_unexpected_error_with_one_directory_keeps_no_other_from_removal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files, clock = MemoryFiles(), StandingClock()
    with Store.create(["/a"], files=files, clock=clock) as store:
        store.topics.create("t", 1)
        store.topics.create("u", 1)
        store.topics.delete("t")
        store.topics.delete("u")
        remove = Doomed.remove

        def broken(doomed: Doomed) -> None:
            if doomed.name.startswith("t-0"):
                raise RecursionError("maximum recursion depth exceeded")
            remove(doomed)

        monkeypatch.setattr(Doomed, "remove", broken)
        clock.ms += 3_600_000
        Maintenance(store, clock, Event()).run_due()
        (left,) = store.topics.removals.due(2**60)
        assert left.name.startswith("t-0")
    assert caplog.text.count("removal ended with an error that kafkafs does not handle") == 1
