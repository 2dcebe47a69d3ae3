"""A log directory says what stands in it, how it was closed and who has it, and changes nothing by that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from path_files import PathFiles

from storage.errors import NotAStoreError, StoreLockedError
from storage.files import FileLock, Files
from storage.files.real import RealDirectory
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.log_dir import LOCK_NAME, LogDir
from storage.log_dir.names import DirectoryName
from storage.testing.faults import BREAKS, DISK_EFFECTS, Cut, CutError, Effect, InterruptError
from storage.testing.memory_files import MemoryFiles
from storage.topics.checkpointing import PartitionCheckpoints

HEX = "0123456789abcdef0123456789abcdef"


class CountingDirectory(RealDirectory):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.looked_at: list[str] = []

    def names(self) -> list[str]:
        self.looked_at.append(self.path)
        return super().names()

    def directories(self):
        self.looked_at.append(self.path)
        return super().directories()

    def own_status(self):
        self.looked_at.append(self.path)
        return super().own_status()

    def status(self, name):
        self.looked_at.append(self.path_of(name))
        return super().status(name)


def test_kinds_of_entries(tmp_path: Path) -> None:
    for name in ("t-0", "a-b-12", f"t-1.{HEX}-delete", f"t-1.{HEX}-stray", "lost+found", "remote-log-index-cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    (tmp_path / "backup").touch()
    listing = LogDir(Files().directory(tmp_path)).scan()
    assert sorted(listing.partitions) == [DirectoryName("a-b", 12), DirectoryName("t", 0)]
    assert sorted(map(str, listing.unattached)) == [f"t-1.{HEX}-delete", f"t-1.{HEX}-stray"]
    assert listing.foreign == ("lost+found",)


def test_a_scan_looks_at_the_directory_and_at_no_name_in_it(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"file-{number}").touch()
    directory = CountingDirectory(tmp_path)
    log_dir = LogDir(directory)
    log_dir.scan()
    assert directory.looked_at[-2:] == [str(tmp_path)] * 2
    directory.looked_at.clear()
    (tmp_path / "t-3").mkdir()
    (tmp_path / "t-0").rename(tmp_path / f"t-0.{HEX}-delete")
    listing = log_dir.scan()
    assert sorted(listing.partitions) == [DirectoryName("t", number) for number in (1, 2, 3)]
    assert directory.looked_at == [str(tmp_path)] * 2


def test_what_may_have_changed_is_told_without_a_scan(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log_dir = LogDir(Files().directory(tmp_path))
    for _ in range(3):
        log_dir.scan()
        assert log_dir.may_have_changed()  # a name may have come since, before the clock of the file system has ticked
    os.utime(tmp_path, (1, 1))
    log_dir.scan()
    assert log_dir.may_have_changed()  # a name may have come just after the scan, at the same time of the directory
    log_dir.scan()
    assert not log_dir.may_have_changed()
    (tmp_path / "t-0" / "file").touch()
    assert not log_dir.may_have_changed()
    os.utime(tmp_path, ns=(0, 0))  # as a name that comes or goes does, if not to the same time
    assert log_dir.may_have_changed()
    log_dir.scan()
    log_dir.scan()
    tmp_path.rename(tmp_path.with_name("away"))
    assert log_dir.may_have_changed()
    tmp_path.with_name("away").rename(tmp_path)
    assert not log_dir.may_have_changed()


def test_another_directory_in_its_place_is_not_it(tmp_path: Path) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    log_dir = LogDir(Files().directory(place))
    assert log_dir.is_there()
    place.rename(tmp_path / "away")
    assert not log_dir.is_there()
    place.mkdir()
    assert not log_dir.is_there()
    place.rmdir()
    (tmp_path / "away").rename(place)
    assert log_dir.is_there()


def test_what_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match=r"^there is no such directory"):
        LogDir(Files().directory(tmp_path / "a"))
    (tmp_path / "a").touch()
    with pytest.raises(NotAStoreError, match="is a directory, and this is a file"):
        LogDir(Files().directory(tmp_path / "a"))


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_lock_is_held_against_other_processes(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreLockedError, match="open it read-only") as caught:
            LogDir(Files().directory(tmp_path)).lock()
        assert caught.value.path == str(path)
        holder.communicate(timeout=60)
    log_dir = LogDir(Files().directory(tmp_path))
    log_dir.lock()
    log_dir.unlock()
    log_dir.unlock()
    assert path.exists()


def test_a_lock_file_that_was_removed_is_locked_again(tmp_path: Path) -> None:
    """A broker that stops removes the file between our opening and our locking it."""

    class LosingFiles(PathFiles):
        taken = 0

        def lock(self, path) -> FileLock:
            lock = super().lock(path)
            self.taken += 1
            if self.taken == 1:
                Path(path).unlink()
            return lock

    files = LosingFiles()
    LogDir(files.directory(tmp_path)).lock()
    assert files.taken == 2
    assert (tmp_path / LOCK_NAME).exists()


def test_the_clean_marker(tmp_path: Path) -> None:
    log_dir = LogDir(Files().directory(tmp_path))
    log_dir.remove_clean_marker()
    assert not log_dir.is_clean()
    log_dir.write_clean_marker()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert log_dir.is_clean()
    log_dir.remove_clean_marker()
    assert list(tmp_path.iterdir()) == []


def test_a_removed_marker_does_not_come_back() -> None:
    files = MemoryFiles()
    log_dir = LogDir(files.directory("/"))
    log_dir.write_clean_marker()
    log_dir.remove_clean_marker()
    assert not any(LogDir(files.after_power_loss(seed).directory("/")).is_clean() for seed in range(20))


@pytest.mark.parametrize("data", [b"\0" * 30, b"1\n0\n", b"0\n2\nt 0 1\n"])
def test_a_damaged_checkpoint_says_nothing(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / OffsetCheckpoint.LOG_START.value).write_bytes(data)
    log_dir = LogDir(Files().directory(tmp_path))
    assert log_dir.offsets(OffsetCheckpoint.LOG_START) == {}
    assert "it is taken for empty" in caplog.text


def test_checkpoints_are_read_and_written_once(tmp_path: Path) -> None:
    log_dir = LogDir(Files().directory(tmp_path))
    log_dir.write_offsets(OffsetCheckpoint.LOG_START, {})
    assert list(tmp_path.iterdir()) == []
    log_dir.write_offsets(OffsetCheckpoint.LOG_START, {("t", 0): 5})
    path = tmp_path / OffsetCheckpoint.LOG_START.value
    assert path.read_text() == "0\n1\nt 0 5\n"
    path.write_text("0\n1\nt 0 6\n")
    log_dir.write_offsets(OffsetCheckpoint.LOG_START, {("t", 0): 5})
    assert log_dir.offsets(OffsetCheckpoint.LOG_START) == {("t", 0): 5}
    log_dir.forget_offsets()
    assert log_dir.offsets(OffsetCheckpoint.LOG_START) == {("t", 0): 6}


@pytest.mark.parametrize("effect", [*DISK_EFFECTS, *BREAKS])
def test_a_checkpoint_that_may_say_the_one_or_the_other_is_written_again(effect: Effect) -> None:
    """Lest a truncation, or a topic of the same name, find more in it than is known here."""
    partition, step = ("t", 0), 0
    while True:
        files = MemoryFiles()
        files.make_directory("/a")
        files.sync_directory("/")
        log_dir = LogDir(files.directory("/a"))
        log_dir.write_offsets(OffsetCheckpoint.RECOVERY_POINT, {partition: 5})
        files.cut = Cut(files.steps + step, effect, seed=step)
        try:
            log_dir.write_offsets(OffsetCheckpoint.RECOVERY_POINT, {partition: 9})
        except (OSError, MemoryError, InterruptError):
            assert log_dir.offsets(OffsetCheckpoint.RECOVERY_POINT) == {partition: 5}
        else:
            break
        PartitionCheckpoints(log_dir, partition).lower(7)
        assert LogDir(files.after_power_loss(step).directory("/a")).offsets(OffsetCheckpoint.RECOVERY_POINT) == {
            partition: 5
        }
        step += 1
    assert step >= 4


def test_a_clean_marker_that_somebody_removed_and_died_does_not_come_back() -> None:
    files = MemoryFiles()
    files.make_directory("/a")
    files.sync_directory("/")
    LogDir(files.directory("/a")).write_clean_marker()
    files.cut = Cut(files.steps + 1)
    with pytest.raises(CutError):
        LogDir(files.directory("/a")).remove_clean_marker()
    files = files.after_process_death()
    LogDir(files.directory("/a")).remove_clean_marker()
    assert not any(LogDir(files.after_power_loss(seed).directory("/a")).is_clean() for seed in range(20))


def test_a_checkpoint_that_is_a_directory_says_nothing_and_refuses_a_writer(tmp_path: Path) -> None:
    for name in ("replication-offset-checkpoint", "cleaner-offset-checkpoint.tmp"):
        (tmp_path / name / "in it").mkdir(parents=True)
        log_dir = LogDir(Files().directory(tmp_path))
        assert [dict(log_dir.offsets(each)) for each in OffsetCheckpoint] == [{}] * 4
        with pytest.raises(IsADirectoryError, match="a checkpoint is to be written there: move it away") as refused:
            log_dir.lock()
        assert refused.value.filename == str(tmp_path / name)
        assert not (tmp_path / LOCK_NAME).exists()
        (tmp_path / name).rename(tmp_path / "moved")
        shutil.rmtree(tmp_path / "moved")
        log_dir.lock()
        log_dir.unlock()
        (tmp_path / LOCK_NAME).unlink()
    assert log_dir.flaws() == {}


def test_a_pipe_in_the_place_of_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "replication-offset-checkpoint")
    log_dir = LogDir(Files().directory(tmp_path))
    assert list(log_dir.flaws()) == [OffsetCheckpoint.HIGH_WATERMARK]
    log_dir.write_offsets(OffsetCheckpoint.HIGH_WATERMARK, {("t", 0): 7})
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 7\n"
