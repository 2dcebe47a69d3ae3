"""A log is opened once for simultaneous callers, and delays no other log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event

import pytest

from storage.errors import PoisonedLogError
from storage.topics.open_logs import OpenLogs

SLOW, FAST = ("slow", 0), ("fast", 0)


class Closable:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


def test_threads_share_a_log_and_do_not_wait_for_another() -> None:
    opened, may_go_on, is_opening = [], Event(), Event()

    def open_log(request: str) -> Closable:
        opened.append(request)
        if request == "slow":
            is_opening.set()
            assert may_go_on.wait(60)
        return Closable()

    logs = OpenLogs()
    with ThreadPoolExecutor(3) as threads:
        slow = [threads.submit(logs.get, SLOW, lambda: partial(open_log, "slow")) for _ in range(2)]
        assert is_opening.wait(60)
        fast = logs.get(FAST, lambda: partial(open_log, "fast"))
        assert logs.open() == {FAST: fast}
        closing = threads.submit(logs.close, SLOW)
        may_go_on.set()
        results = [each.result(60) for each in slow]
        closing.result(60)
    assert opened.count("fast") == 1
    # A caller after the closing gets an open log.
    assert opened.count("slow") == len(set(map(id, results)))
    assert sum(log.closed for log in {id(log): log for log in results}.values()) == 1


def test_every_log_is_closed_and_every_error_told() -> None:
    error = PoisonedLogError("no")
    made = iter([Closable(error), Closable(OSError("gone")), Closable()])
    logs = OpenLogs()
    first, second, third = (logs.get(("t", number), lambda: partial(next, made)) for number in range(3))
    failures = logs.close_all()
    assert list(failures) == [("t", 0), ("t", 1)]
    assert failures["t", 0] is error
    assert (first.closed, second.closed, third.closed) == (1, 1, 1)
    assert logs.open() == {}
    logs.close(("t", 0))


@pytest.mark.parametrize("error", [PoisonedLogError("no"), OSError("gone"), MemoryError(), KeyboardInterrupt()])
def test_a_log_whose_closing_breaks_off_has_failed(error: BaseException) -> None:
    logs = OpenLogs()
    logs.get(SLOW, lambda: partial(Closable, error))
    with suppress(MemoryError, KeyboardInterrupt):
        logs.discard([SLOW])
    assert logs.failed == {SLOW}
    logs.get(SLOW, lambda: Closable)
    logs.discard([SLOW])
    assert logs.failed == set()


def test_a_log_that_is_being_opened_gets_the_new_settings() -> None:
    may_go_on, is_opening = Event(), Event()

    def open_log(request: str) -> Closable:
        is_opening.set()
        assert may_go_on.wait(60)
        log = Closable()
        log.config = request
        return log

    logs = OpenLogs()
    with ThreadPoolExecutor(2) as threads:
        opening = threads.submit(logs.get, SLOW, lambda: partial(open_log, "old"))
        assert is_opening.wait(60)
        changing = threads.submit(logs.configure, "slow", "new")
        may_go_on.set()
        changing.result(60)
        assert opening.result(60).config == "new"


def test_one_open_log_is_found_without_a_copy_of_all() -> None:
    logs = OpenLogs()
    assert logs.find(FAST) is None
    opened = logs.get(FAST, lambda: Closable)
    assert logs.find(FAST) is opened
    assert logs.find(SLOW) is None
    logs.close(FAST)
    assert logs.find(FAST) is None
