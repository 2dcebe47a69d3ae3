"""The access to a log's views counts what they showed a moment ago."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.tree import granted, rights
from kafkafs.tree.granted import REPLACED_S, Granted
from kafkafs.tree.rights import Rights
from storage.clock import Clock
from storage.files import Files
from storage.log import FollowedLog
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator


class Elapsed:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def elapsed(monkeypatch: pytest.MonkeyPatch) -> Elapsed:
    clock = Elapsed()
    monkeypatch.setattr(granted, "monotonic", clock)
    monkeypatch.setattr(rights, "monotonic", clock)
    return clock


@pytest.fixture
def store() -> Iterator[Path]:
    """Make a store that all users get to, unlike the directories of pytest."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        make(Path(made) / "store")
        yield Path(made) / "store"


def make(path: Path) -> None:
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 2)
        for partition in range(2):
            made.log_to_write("t", partition)
    (path / "t-0").chmod(0o755)
    (path / "t-1").chmod(0o700)


def exchange(store: Path) -> None:
    (store / "t-0").rename(store / "t-9")
    (store / "t-1").rename(store / "t-0")
    (store / "t-9").rename(store / "t-1")


def test_what_was_replaced_counts_for_some_time(store: Path, elapsed: Elapsed) -> None:
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        log = opened.log("t", 0)
        assert isinstance(log, FollowedLog)
        of_log = Granted(log, Rights(opened.log_dirs, is_shared=True))
        assert of_log.access().mode & 0o055 == 0o055
        exchange(store)
        _ = log.view
        assert of_log.access().mode & 0o077 == 0, "at once: a view shows the other one"
        exchange(store)
        elapsed.now_s += REPLACED_S / 2
        assert of_log.access().mode & 0o077 == 0, "the log is looked for, and the other one still counts"
        elapsed.now_s += REPLACED_S + 1
        assert of_log.access().mode & 0o055 == 0o055
