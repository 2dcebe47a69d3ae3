"""When a thread that makes many system calls pauses."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from storage.files import Files, turns

if TYPE_CHECKING:
    from pathlib import Path


class Time:
    """A clock that stands still but for what sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses = 0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.now_s += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(turns, "monotonic", made.monotonic)
    monkeypatch.setattr(turns, "sleep", made.sleep)
    return made


def test_a_thread_that_takes_turns_pauses_once_in_each_and_others_never(time: Time, tmp_path: Path) -> None:
    directory = Files().directory(tmp_path)

    def use_files() -> None:
        for _ in range(3):
            directory.status("x")
        time.now_s += 0.01

    use_files()
    use_files()
    assert time.pauses == 0
    with turns.taking_turns():
        use_files()
        assert time.pauses == 0
        use_files()
        assert time.pauses == 1
        other = Thread(target=use_files)
        other.start()
        other.join()
        assert time.pauses == 1
        use_files()
        assert time.pauses == 2
    use_files()
    assert time.pauses == 2
