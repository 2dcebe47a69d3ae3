"""A log is cut at every step of all that is done to it, and keeps what it has promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS
from promising_logs import PromisingLog

from storage.log.flushing import Durability

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.crash

SMALL = {"segment.bytes": "1000", "segment.index.bytes": "120", "index.interval.bytes": "128"}
FULL_INDEXES = {"segment.bytes": "100000", "segment.index.bytes": "60", "index.interval.bytes": "100"}
PREALLOCATED = {**SMALL, "preallocate": "true"}


def appends_that_roll(log: PromisingLog) -> None:
    for number in range(9):
        log.append(b"%d" % number * 120, b"more", timestamp=NOW_MS + number * 10)


def appends_flushed_late(log: PromisingLog) -> None:
    """Rolls whose flush comes later, or never."""
    appends_that_roll(log)
    log.run_tasks()
    log.append(b"x" * 300)
    log.flush()
    log.roll()
    log.append(b"y" * 300, timestamp=NOW_MS + 50)
    log.close()


def producers(log: PromisingLog) -> None:
    """Idempotent and transactional producers, under two leaders, over several segments."""
    for sequence in range(3):
        log.produce(b"first %d" % sequence * 20, sequence)
    log.produce(b"in a transaction" * 10, 0, producer_id=8, transactional=True)
    log.produce(b"in another" * 10, 0, producer_id=9, transactional=True)
    log.leader_epoch = 3
    log.produce(b"second" * 30, 3)
    log.repeat(b"second" * 30, 3)
    log.end_transaction(8, committed=False)
    log.run_tasks()
    log.produce(b"third" * 40, 4)
    log.end_transaction(9, committed=True)
    log.produce(b"left open" * 30, 1, producer_id=9, transactional=True)
    log.produce(b"fourth" * 40, 5)


def truncations(log: PromisingLog) -> None:
    log.produce(b"x" * 50, 0)
    log.truncate_to(7)
    log.leader_epoch = 4
    log.append(b"other" * 30, b"batch")
    log.append(b"other" * 30)
    log.truncate_to(8)
    log.append(b"yet another" * 20)
    log.append(b"and more" * 50)
    log.append(b"and more" * 50)


def starts(log: PromisingLog) -> None:
    log.advance_start(3)
    log.append(b"x" * 300)
    log.advance_start(8)
    log.truncate_to(5)
    log.append(b"y" * 300)


def removals(log: PromisingLog) -> None:
    """Segments go from the beginning, also right after an unflushed roll, up to all of them."""
    for sequence in range(5):
        log.produce(b"x" * 300, sequence)
    log.remove_before(log.log.view.bases[1])
    log.advance_start(log.log.view.bases[2] + 1)
    log.remove_before(log.log.view.bases[2])
    log.leader_epoch = 5
    log.append(b"y" * 700)
    log.roll()
    log.remove_before(log.log.view.end_offset)
    log.append(b"z" * 300)
    log.flush()
    log.reopen()
    log.append(b"and on" * 100)
    log.remove_before(log.log.view.bases[-1])


def closings(log: PromisingLog) -> None:
    log.append(b"x" * 300)
    log.reopen()
    log.produce(b"y" * 300, 0)
    log.append(b"z" * 600)
    log.reopen()


SCENARIOS = {
    "appends that roll": (SMALL, None, appends_that_roll),
    "appends flushed late": (SMALL, None, appends_flushed_late),
    "full indexes": (FULL_INDEXES, None, appends_flushed_late),
    "preallocated": (PREALLOCATED, None, appends_flushed_late),
    "producers": (SMALL, None, producers),
    "truncations": (SMALL, appends_that_roll, truncations),
    "starts": (SMALL, appends_that_roll, starts),
    "removals": (SMALL, appends_that_roll, removals),
    "closings": (PREALLOCATED, appends_that_roll, closings),
}


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_log_keeps_its_promises(crashes, name: str, durability: Durability) -> None:
    settings, before, act = SCENARIOS[name]

    def prepare() -> PromisingLog:
        log = PromisingLog(settings, durability=durability)
        if before is not None:
            before(log)
        return log

    crashes.of_log(prepare, longer(act) if crashes.is_proof else act)


def longer(act: Callable[[PromisingLog], None]) -> Callable[[PromisingLog], None]:
    def act_and_more(log: PromisingLog) -> None:
        act(log)
        log.reopen()
        appends_that_roll(log)
        log.run_tasks()
        log.reopen()

    return act_and_more
