"""Runs of a backup are cut at every step: what is there is whole or unfinished, and the next run goes on from it."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest
from backed_up_stores import DEST, LATEST, BackedUp

from kafkafs.backup import RunCheck
from kafkafs.backup.errors import BackupError
from storage.errors import StorageError

if TYPE_CHECKING:
    from conftest import Crashes

    from storage.testing.memory_files import MemoryFiles

pytestmark = pytest.mark.crash


def prepared() -> BackedUp:
    """A store with a run, of whose files the next run can share some."""
    made = BackedUp()
    made.create({"t": 1})
    made.append("t", 0, 12)
    made.back_up()
    made.append("t", 0, 6)
    return made


def test_the_next_run_is_whole_and_so_is_what_latest_leads_to(crashes: Crashes) -> None:
    expected = prepared().values()
    for cut, later in crashes.of(prepared, BackedUp.back_up):
        for files, _ in later:
            store = BackedUp(files, cut.clock)
            source = store.source()
            check_places(store)
            report = store.back_up()
            assert store.values_of(report.path) == expected
            assert store.damage_in(report.path) == []
            assert store.source() == source
            assert files.link_target(LATEST) == f"runs/{report.name}"
            assert not [name for name in files.names(DEST / "runs") if name.endswith(".unfinished")]
            check_places(store)


def check_places(store: BackedUp) -> None:
    """Check that every run which has its name is what was written, and that `latest` leads to one."""
    names = [name for name in store.files.names(DEST / "runs") if not name.endswith(".unfinished")]
    assert names
    for name in names:
        assert list(RunCheck(store.files, DEST / "runs" / name).findings(lambda: None)) == []
    assert store.files.link_target(LATEST).removeprefix("runs/") in names


def test_a_full_disk_says_what_to_do() -> None:
    store = prepared()
    files: MemoryFiles = store.files
    files.capacity_bytes = 1
    with pytest.raises(StorageError, match="remove old runs, and run it again"):
        store.back_up()
    files.capacity_bytes = None
    report = store.back_up()
    assert store.damage_in(report.path) == []


def fits(store: BackedUp, capacity_bytes: int) -> bool:
    """Return whether a run is complete on a disk of this size."""
    store.files.capacity_bytes = capacity_bytes
    with suppress(BackupError):
        store.back_up()
        return True
    return False


def test_what_a_full_disk_cut_short_takes_no_room_from_the_next_run() -> None:
    def fresh() -> BackedUp:
        made = BackedUp()
        made.create({"t": 1})
        made.append("t", 0, 200)
        return made

    store, slack_bytes = fresh(), 4096
    used_bytes = sum(map(len, store.source().values()))
    enough_bytes = next(each for each in count(used_bytes, slack_bytes) if fits(fresh(), each))
    for _ in range(3):
        assert not fits(store, (used_bytes + enough_bytes) // 2)
    assert fits(store, enough_bytes + slack_bytes)
