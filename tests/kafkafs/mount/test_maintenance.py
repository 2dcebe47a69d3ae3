"""Maintenance runs beside a mount of a store that may be maintained, ends with it, and is told of in the metrics."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.maintenance import maintained
from kafkafs.mount.metrics import Metrics
from kafkafs.mount.options import MountOptions
from storage.clock import Clock
from storage.files import Files
from storage.store.maintenance import Maintenance
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEADLINE_S = 60


def is_running() -> bool:
    return any(thread.name == "kafkafs-maintenance" for thread in threading.enumerate())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Store.create([tmp_path / "store"], files=Files(), clock=Clock()).close()
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("mode", "is_made_here", "asked", "expected"),
    [
        (Mode.READ_WRITE, True, None, True),
        (Mode.READ_WRITE, True, True, True),
        (Mode.READ_WRITE, True, False, False),
        (Mode.READ_WRITE, False, None, False),
        (Mode.READ_WRITE, False, True, True),
        (Mode.READ_WRITE, False, False, False),
        (Mode.READ_ONLY, True, None, False),
        (Mode.READ_ONLY, True, True, False),
    ],
)
def test_it_runs_where_it_may_and_is_wanted(
    path: Path, mode: Mode, is_made_here: bool, asked: bool | None, expected: bool
) -> None:
    if not is_made_here:
        (path / "kafkafs-topics.properties").unlink()
    metrics = Metrics()
    with (
        Store.open([path], mode=mode, files=Files(), clock=Clock()) as store,
        maintained(store, MountOptions(has_maintenance=asked), metrics, Clock()),
    ):
        assert is_running() == expected
        assert (b'kafkafs_maintenance_runs_total{job="retention"}' in metrics.text()) == expected
    assert not is_running()


def test_an_unexpected_error_ends_maintenance_and_not_the_mount(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    def fail(_: Maintenance) -> None:
        ended.set()
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(Maintenance, "run", fail)
    with (
        caplog.at_level(logging.ERROR),
        Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store,
        maintained(store, MountOptions(), Metrics(), Clock()),
    ):
        assert ended.wait(DEADLINE_S)
    assert "maintenance ended with an error that kafkafs does not handle: this is a bug" in caplog.text


def test_a_mount_that_ends_waits_for_what_is_being_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, done = threading.Event(), threading.Event()

    def work(stopped: Callable[[float], bool]) -> None:
        begun.set()
        assert stopped(DEADLINE_S)
        done.set()

    monkeypatch.setattr(Maintenance, "run", lambda self: work(self._stopped.wait))
    with (
        Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store,
        maintained(store, MountOptions(), Metrics(), Clock()),
    ):
        assert begun.wait(DEADLINE_S)
        assert not done.is_set()
    assert done.is_set()
