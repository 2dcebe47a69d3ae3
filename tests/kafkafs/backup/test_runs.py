"""Runs of backups: each a store with the source's records, which shares what did not change with the one before."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from backed_up_stores import DEST, LATEST, BackedUp, backed_up_store

from kafkafs.backup.errors import BackupError
from kafkafs.backup.places import BackupPlace
from storage.errors import ReadOnlyStoreError, StoreLockedError
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store() -> BackedUp:
    return backed_up_store()


def test_a_run_has_every_record_and_nothing_of_the_store_changes(store: BackedUp) -> None:
    before = store.source()
    report = store.back_up()
    assert store.source() == before
    assert store.values_of(report.path) == store.values()
    assert store.damage_in(report.path) == []
    assert (report.partitions, report.linked_bytes, report.changes, report.damage) == (3, 0, [], [])
    assert store.files.link_target(LATEST) == f"runs/{report.name}"


def test_a_second_run_links_what_did_not_change(store: BackedUp) -> None:
    first = store.back_up()
    store.append("orders", 0, 1, "more")
    second = store.back_up()
    assert store.values_of(second.path) == store.values()
    assert store.damage_in(second.path) == []
    for unchanged in ("orders-1", "idle-0"):
        ours, theirs = store.identities(second.path, unchanged), store.identities(first.path, unchanged)
        kept = {name for name in ours if ours[name] == theirs[name]}
        assert ours.keys() - kept == {"leader-epoch-checkpoint", "partition.metadata"}
    ours, theirs = store.identities(second.path, "orders-0"), store.identities(first.path, "orders-0")
    logs = sorted(name for name in ours if name.endswith(".log"))
    assert len(logs) > 2
    assert [ours[name] == theirs.get(name) for name in logs[:-2]] == [True] * len(logs[:-2])
    assert ours[logs[-1]] != theirs.get(logs[-1])
    assert second.copied_bytes < first.copied_bytes / 2
    assert second.linked_bytes > 0


def test_no_file_is_linked_to_the_store(store: BackedUp) -> None:
    report = store.back_up()
    ours = set(store.identities(report.path, "orders-0").values())
    theirs = {identity for path in ("/a", "/b") for identity in _below(store, path)}
    assert not ours & theirs


def _below(store: BackedUp, path: str) -> set[tuple[int, int]]:
    found = set()
    for name, status in store.files.directory(path).statuses().items():
        if status.is_directory:
            found |= {each.identity for each in store.files.directory(f"{path}/{name}").statuses().values()}
    return found


def test_removing_a_run_leaves_the_others_whole(store: BackedUp) -> None:
    first = store.back_up()
    second = store.back_up()
    _remove(store, first.path)
    assert store.damage_in(second.path) == []
    third = store.back_up()
    assert third.linked_bytes > 0
    assert store.values_of(third.path) == store.values()


def _remove(store: BackedUp, run: Path) -> None:
    for name, status in store.files.directory(run).statuses().items():
        if status.is_directory:
            for each in store.files.names(run / name):
                store.files.remove(run / name / each)
            store.files.remove_directory(run / name)
        else:
            store.files.remove(run / name)
    store.files.remove_directory(run)


def test_copying_all_links_nothing(store: BackedUp) -> None:
    first = store.back_up()
    second = store.back_up(copies_all=True)
    assert second.linked_bytes == 0
    assert second.copied_bytes == first.copied_bytes


def test_a_file_system_without_hard_links_has_whole_runs(store: BackedUp, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, _: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    first = store.back_up()
    monkeypatch.setattr(store.files, "link", refuse)
    second = store.back_up()
    assert (second.copied_bytes, second.linked_bytes) == (first.copied_bytes, 0)
    assert store.damage_in(second.path) == []


def test_nothing_writes_to_a_run(store: BackedUp) -> None:
    report = store.back_up()
    with pytest.raises(ReadOnlyStoreError, match="shares files with other runs"):
        Store.open([report.path], mode=Mode.READ_WRITE, files=store.files, clock=store.clock)


def test_a_plan_says_what_the_run_does_and_makes_nothing(store: BackedUp) -> None:
    plans = list(store.backup().plan(pytest.fail))
    assert not store.files.directory(DEST).exists()
    first = store.back_up()
    assert {plan.linked_bytes for plan in plans} == {0}
    assert sum(plan.copied_bytes for plan in plans) <= first.copied_bytes
    store.append("orders", 1, 1)
    store.clock.ms += 60_000
    names = store.files.names(DEST / "runs")
    assert {plan.name for plan in store.backup().plan(pytest.fail) if plan.copied_bytes} == {"orders-1"}
    assert store.files.names(DEST / "runs") == names


def test_deleted_records_and_topics_stay_deleted(store: BackedUp) -> None:
    store.back_up()
    with store.open() as opened:
        opened.log_to_write("orders", 0).advance_start(7)
        opened.topics.delete("idle")
    report = store.back_up()
    assert store.values_of(report.path) == store.values()
    assert store.damage_in(report.path) == []
    with Store.open([report.path], mode=Mode.READ_ONLY, files=store.files, clock=store.clock) as run:
        assert run.log("orders", 0).view.start_offset == 7
        assert set(run.topics.inventory.topics) == {"orders"}
    assert report.changes == ["idle-0 is in the run before, and is not in the store any more"]
    assert store.back_up().changes == []


def test_a_partition_that_ends_before_it_did_is_named(store: BackedUp) -> None:
    store.back_up()
    with store.open() as opened:
        opened.log_to_write("orders", 0).truncate_to(12)
        opened.log_to_write("orders", 1).truncate_to(2)
    report = store.back_up()
    assert report.changes == [
        "orders-0 ends at offset 12, and the run before has offsets 12 to 19 of it too",
        "orders-1 ends at offset 2, and the run before has offset 2 of it too",
    ]
    assert not report.failures
    assert store.back_up().changes == []


def test_settings_come_along(store: BackedUp) -> None:
    with store.open() as opened:
        opened.topics.change_config("orders", {"retention.ms": "12345"})
    report = store.back_up()
    with Store.open([report.path], mode=Mode.READ_ONLY, files=store.files, clock=store.clock) as run:
        assert run.topics.known("orders").settings == {"retention.ms": "12345"}
        assert run.is_made_here
        assert run.topics.topic_id("orders") is not None


# Names and places


def test_runs_stay_in_order_when_the_clock_steps_back(store: BackedUp) -> None:
    first = store.back_up()
    store.clock.ms -= 90_000
    second = store.back_up()
    assert second.name > first.name
    assert store.files.link_target(LATEST) == f"runs/{second.name}"
    store.clock.ms -= 3_600_000
    with pytest.raises(BackupError, match="is of a time that is to come"):
        store.back_up()


def test_the_backups_of_two_brokers_do_not_mix(store: BackedUp) -> None:
    store.back_up()
    other = BackedUp(store.files, store.clock)
    properties = store.files.read("/a/meta.properties")
    for path in ("/a", "/b"):
        data = store.files.read(f"{path}/meta.properties").replace(b"node.id=1", b"node.id=2")
        store.files.directory(path).replace("meta.properties", data)
    with pytest.raises(BackupError, match="the backups of node 1, and the store is of 2"):
        other.back_up()
    assert properties != store.files.read("/a/meta.properties")


def test_one_backup_at_a_time(store: BackedUp) -> None:
    store.back_up()
    lock = store.files.directory(DEST).lock(".lock")
    with pytest.raises(StoreLockedError, match="another process makes a backup here"):
        store.back_up()
    lock.release()
    store.back_up()


def test_a_directory_that_holds_something_else_is_refused(store: BackedUp) -> None:
    store.files.make_directory(DEST)
    store.files.directory(DEST).replace("mine.txt", b"mine")
    with pytest.raises(BackupError, match="is not empty, and has no backups in it"):
        store.back_up()
    with pytest.raises(BackupError, match="is not empty, and has no backups in it"):
        list(store.backup().plan(pytest.fail))
    assert store.files.names(DEST) == ["mine.txt"]


def test_a_latest_that_is_no_link_is_refused_before_anything_is_copied(store: BackedUp) -> None:
    store.back_up()
    store.files.directory(DEST).remove("latest")
    store.files.make_directory(DEST / "latest")
    runs = store.files.names(DEST / "runs")
    with pytest.raises(BackupError, match="it is no symbolic link"):
        store.back_up()
    with pytest.raises(BackupError, match="it is no symbolic link"):
        list(store.backup().plan(pytest.fail))
    assert store.files.names(DEST / "runs") == runs


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "backups").symlink_to("gone")
    with pytest.raises(BackupError, match="it is a link that leads nowhere"):
        BackupPlace.open(Files(), tmp_path / "backups", None)
