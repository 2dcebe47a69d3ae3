"""Directories of backups in which another user makes links, or puts other directories in the place of runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent
from other_users import NOBODY

import kafkafs.backup.partition_copy
from kafkafs.backup import Backup, RunCheck
from kafkafs.backup.errors import BackupError
from kafkafs.backup.groups import commits_beyond
from kafkafs.backup.places import BackupPlace
from storage.errors import NotAStoreError, SymbolicLinkError
from storage.files import Files, copy_ranges
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkafs.backup import RunReport
    from kafkafs.backup.making import TakenPartition

UNFINISHED = "20200101T000000.000Z.unfinished"


class Disk:
    """A store of two topics, a directory of backups, and files of another user's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dest = path / "backups"
        self.runs = self.dest / "runs"
        self.victim = path / "victim"
        self.important = self.victim / "orders-0" / "important"
        self.clock = StandingClock()
        (path / "store").mkdir(mode=0o755)
        with Store.create([path / "store"], files=Files(), clock=self.clock) as store:
            for topic in ("idle", "orders"):
                store.topics.create(topic, 1)
                store.log_to_write(topic, 0).append_as_leader(sent(b"value"), leader_epoch=0)
        self.important.parent.mkdir(parents=True)
        self.important.write_text("important")

    def create(self, topic: str) -> Path:
        """Make a topic, and return the directory of its partition."""
        with Store.open([self.path / "store"], mode=Mode.READ_WRITE, files=Files(), clock=self.clock) as store:
            store.topics.create(topic, 1)
            store.log_to_write(topic, 0).append_as_leader(sent(b"value"), leader_epoch=0)
        return self.path / "store" / f"{topic}-0"

    def back_up(self, tell: Callable[[TakenPartition], None] = lambda _: None) -> RunReport:
        """Make a run."""
        self.clock.ms += 60_000
        backup = Backup(Files(), self.clock, [self.path / "store"], self.dest, broker_settings={})
        return backup.run(tell)

    def unfinished(self) -> Path:
        """Return the run that is being made."""
        return next(self.runs.glob("*.unfinished"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    old = os.umask(0o022)
    yield Disk(tmp_path)
    os.umask(old)


def test_a_link_in_the_place_of_an_unfinished_run_goes_itself(disk: Disk) -> None:
    disk.back_up()
    (disk.runs / UNFINISHED).symlink_to(disk.victim)
    report = disk.back_up()
    assert disk.important.read_text() == "important"
    assert list(disk.runs.glob("*.unfinished")) == []
    assert list(RunCheck(Files(), report.path).findings(lambda: None)) == []


def test_a_file_in_the_place_of_an_unfinished_run_goes_too(disk: Disk) -> None:
    disk.back_up()
    (disk.runs / UNFINISHED).write_text("no directory")
    disk.back_up()
    assert list(disk.runs.glob("*.unfinished")) == []


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_run_that_is_exchanged_while_it_is_made_is_given_up(disk: Disk, kind: str) -> None:
    def exchange(taken: TakenPartition) -> None:
        if taken.partition.topic == "idle":
            run = disk.unfinished()
            run.rename(disk.dest / "moved")
            if kind == "link":
                run.symlink_to(disk.victim)
            else:
                disk.victim.rename(run)

    with pytest.raises(OSError, match=r"is a symbolic link|another directory is at its path"):
        disk.back_up(exchange)
    victim = disk.victim if kind == "link" else disk.unfinished()
    assert [path.relative_to(victim).as_posix() for path in sorted(victim.rglob("*"))] == [
        "orders-0",
        "orders-0/important",
    ]


def test_a_run_that_is_exchanged_at_its_end_gets_no_name(disk: Disk) -> None:
    disk.runs.mkdir(parents=True)
    with BackupPlace.open(Files(), disk.dest, None) as place:
        name, directory = place.begin(disk.clock, 0o777)
        disk.unfinished().rename(disk.dest / "moved")
        disk.victim.rename(disk.runs / f"{name}.unfinished")
        with pytest.raises(BackupError, match="was moved or replaced while it was made"):
            place.complete(name, directory, is_latest=True)
    assert not (disk.dest / "latest").is_symlink()


def test_a_link_in_the_place_of_runs_is_not_followed(disk: Disk) -> None:
    disk.back_up()
    disk.runs.rename(disk.victim / "runs")
    disk.runs.symlink_to(disk.victim / "runs")
    before = sorted(disk.victim.rglob("*"))
    with pytest.raises(SymbolicLinkError):
        disk.back_up()
    assert sorted(disk.victim.rglob("*")) == before


def test_a_link_in_the_place_of_a_run_is_passed_over(disk: Disk) -> None:
    report = disk.back_up()
    report.path.rename(disk.victim / "run")
    report.path.symlink_to(disk.victim / "run")
    with BackupPlace.open(Files(), disk.dest, None) as place:
        assert place.usable() == []
    disk.back_up()


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_what_stands_in_the_place_of_an_unfinished_manifest_goes(disk: Disk, kind: str) -> None:
    disk.back_up()
    run = disk.runs / UNFINISHED
    run.mkdir()
    manifest = run / "kafkafs-backup.jsonl"
    if kind == "fifo":
        os.mkfifo(manifest)
    elif kind == "directory":
        manifest.mkdir()
    else:
        manifest.symlink_to(disk.important)
    disk.back_up()
    assert disk.important.read_text() == "important"
    assert not run.exists()


@pytest.mark.parametrize("suffix", ["", ".unfinished"])
def test_a_name_of_digits_that_are_no_time_is_no_run(disk: Disk, suffix: str) -> None:
    disk.back_up()
    (disk.runs / f"20209999T999999.000Z{suffix}").mkdir()
    disk.back_up()
    assert (disk.runs / f"20209999T999999.000Z{suffix}").exists()


def test_what_is_made_belongs_to_who_makes_it(disk: Disk) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root, who alone can give a directory away")
    disk.dest.mkdir()
    os.chown(disk.dest, NOBODY, NOBODY)
    disk.back_up()
    assert {path.lstat().st_uid for path in disk.dest.rglob("*")} == {0}


def test_commits_are_read_in_the_run_whatever_is_at_its_path(disk: Disk) -> None:
    with BackupPlace.open(Files(), disk.dest, None) as place:
        _, directory = place.begin(disk.clock, 0o777)
        run = disk.unfinished()
        run.rename(disk.dest / "moved")
        run.symlink_to(disk.path / "store")
        with pytest.raises((SymbolicLinkError, NotAStoreError)):
            list(commits_beyond(disk.clock, directory, {}))


# What other users may read


def modes_below(path: Path) -> set[int]:
    return {each.stat().st_mode & 0o777 for each in path.iterdir()}


def close(partition: Path) -> None:
    for each in partition.iterdir():
        each.chmod(0o600)
    partition.chmod(0o700)


def test_a_partition_that_comes_later_is_as_closed_as_it_is(disk: Disk) -> None:
    def come(taken: TakenPartition) -> None:
        if taken.partition.topic == "idle":
            close(disk.create("private"))

    report = disk.back_up(come)
    private = report.path / "private-0"
    assert (private.stat().st_mode & 0o777, modes_below(private)) == (0o700, {0o600})
    assert ((report.path / "orders-0").stat().st_mode & 0o777, modes_below(report.path / "orders-0")) == (
        0o755,
        {0o644},
    )
    assert {each.stat().st_mode & 0o777 for each in report.path.iterdir() if each.is_file()} == {0o600}
    assert list(RunCheck(Files(), report.path).findings(lambda: None)) == []


def test_a_partition_that_is_closed_while_it_is_copied_is_copied_again(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = disk.path / "store" / "orders-0"

    def close_and_copy(*arguments: object, **options: object) -> None:
        if disk.unfinished().joinpath("orders-0").exists():
            orders.chmod(0o700)
        copy_ranges(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kafkafs.backup.partition_copy, "copy_ranges", close_and_copy)
    report = disk.back_up()
    copy = report.path / "orders-0"
    assert (copy.stat().st_mode & 0o777, modes_below(copy)) == (0o700, {0o600})
    assert [change for change in report.changes if "fewer users may read it now" in change]
