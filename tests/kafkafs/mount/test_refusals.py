"""What is logged of refused requests."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount import guard
from kafkafs.mount.guard import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def pass_s(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time stand still but for what is passed."""
    now_s = [1000.0]
    monkeypatch.setattr(guard, "monotonic", lambda: now_s[0])

    def go_on(seconds: float) -> None:
        now_s[0] += seconds

    return go_on


def refuse(refusals: Refusals, path: str, number: int = errno.EACCES) -> None:
    assert refusals.number("lookup", OSError(number, "no", path), is_write=False, is_open=False) == number


def test_of_a_flood_of_refusals_some_are_logged_and_the_rest_is_counted(
    pass_s: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    refusals = Refusals()
    for number in range(1000):
        refuse(refusals, f"path {number}")
    assert caplog.messages == [f"lookup: path {number}: no (EACCES)" for number in range(200)]
    caplog.clear()
    pass_s(1)
    for number in range(10):
        refuse(refusals, f"later {number}")
    assert caplog.messages == [
        "800 more refusals came too fast to be logged",
        *(f"lookup: later {number}: no (EACCES)" for number in range(5)),
    ]
    caplog.clear()
    pass_s(3600)
    for number in range(300):
        refuse(refusals, f"path {number}")
    assert len(caplog.messages) == 1 + 200


def test_damage_that_was_not_logged_in_a_flood_is_logged_later_and_once(
    pass_s: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals()
    for number in range(200):
        refuse(refusals, f"path {number}")
    refuse(refusals, "log", errno.EIO)
    assert "lookup: log: no (EIO)" not in caplog.messages
    pass_s(60)
    for _ in range(3):
        refuse(refusals, "log", errno.EIO)
    assert caplog.messages.count("lookup: log: no (EIO)") == 1
