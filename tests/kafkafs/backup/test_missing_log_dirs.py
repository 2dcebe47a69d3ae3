"""A store that lacks a log directory: its backup is refused, or lacks it too because the user accepts that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from backed_up_stores import DEST, LATEST, BackedUp
from metadata_logs import BrokerDir, partition_record, topic_record
from staged_stores import PATHS

from kafkafs.backup import Backup
from kafkafs.backup.errors import BackupError
from storage.ids import format_id

if TYPE_CHECKING:
    from storage.testing.memory_files import MemoryFiles

HERE, THERE = UUID(int=1 << 90), UUID(int=1 << 91)


@pytest.fixture
def store() -> BackedUp:
    made = BackedUp()
    made.create({"orders": 4})
    return made


def unmount(files: MemoryFiles, path: str) -> None:
    """Leave the empty directory that a disk was mounted on."""
    for name, status in files.directory(path).statuses().items():
        if status.is_directory:
            for each in files.names(f"{path}/{name}"):
                files.remove(f"{path}/{name}/{each}")
            files.remove_directory(f"{path}/{name}")
        else:
            files.remove(f"{path}/{name}")


def runs(store: BackedUp) -> list[str]:
    return store.files.names(DEST / "runs")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_disk_that_is_not_mounted(store: BackedUp, is_first: bool) -> None:
    if not is_first:
        store.back_up()
    unmount(store.files, "/b")
    with pytest.raises(BackupError, match="/b is empty: its disk may not be mounted: name every log directory"):
        store.back_up()
    with pytest.raises(BackupError, match="/b is empty"):
        list(store.backup().plan(pytest.fail))
    assert ("backups" in store.files.names("/")) is not is_first
    report = store.back_up(accepts_missing=True)
    assert report.changes[0] == "/b is empty: its disk may not be mounted"
    assert store.files.link_target(LATEST) == f"runs/{report.name}"


@pytest.mark.parametrize("copies_all", [True, False])
def test_a_log_directory_that_the_run_before_had(store: BackedUp, copies_all: bool) -> None:
    first = store.back_up()
    with pytest.raises(BackupError, match="/b, from which the run before has 2 partitions that are not here, was not"):
        store.back_up(["/a"], copies_all=copies_all)
    assert (runs(store), store.files.link_target(LATEST)) == ([first.name], f"runs/{first.name}")
    store.back_up(["/a"], accepts_missing=True)
    assert store.back_up(["/a"]).changes == [], "it is not in the run before"


def test_a_log_directory_that_the_broker_is_told_to_have(store: BackedUp) -> None:
    with pytest.raises(BackupError, match=r"/c is in the broker's log\.dirs, and was not named"):
        store.back_up(broker_settings={"log.dirs": "/a,/b,/c"})
    store.back_up(broker_settings={"log.dirs": "/data/1,/data/2"})


def test_a_log_directory_that_the_metadata_log_has_partitions_in() -> None:
    store = BackedUp()
    broker = BrokerDir(store.files, "/a")
    named = store.files.read("/a/meta.properties").decode()
    store.files.directory("/a").replace("meta.properties", f"{named}directory.id={format_id(HERE)}\n".encode())
    broker.tell(
        topic_record("t"), *(partition_record(number, directories=(each,)) for number, each in enumerate((HERE, THERE)))
    )
    broker.add_partition("t", 0)
    with pytest.raises(BackupError, match=f"{format_id(THERE)}, in which this broker has 1 partition by the metadata"):
        store.back_up(["/a"])
    broker.add_partition("t", 1)
    assert store.back_up(["/a"]).partitions == 3, "all of them are here, in whichever directory"
    run = DEST / store.files.link_target(LATEST)
    copy = Backup(store.files, store.clock, [run], Path("/copies"), broker_settings={"log.dirs": "/a,/b"})
    assert copy.run(lambda _: None).partitions == 3, "a run has all of them in one directory"


def test_a_disk_that_goes_while_it_is_copied(store: BackedUp) -> None:
    first = store.back_up()
    backup = store.backup()
    taken = 0

    def unmount_after_two(_: object) -> None:
        nonlocal taken
        taken += 1
        if taken == len(PATHS):
            unmount(store.files, "/b")

    store.clock.ms += 60_000
    report = backup.run(unmount_after_two)
    assert report.failures == ["/b is empty: its disk may not be mounted"]
    assert store.files.link_target(LATEST) == f"runs/{first.name}"
