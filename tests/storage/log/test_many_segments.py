"""A log of many segments: what is done for each of them takes no longer the more there are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest

from storage.clock import Clock, Interval
from storage.errors import TooManySegmentsError
from storage.files import Directory, Files
from storage.files.listed import ListedDirectory
from storage.files.real import RealDirectory
from storage.log import log_writer
from storage.log.past_damage import batches_past_damage
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.recover import recovery
from storage.record import batches_of_rows
from storage.segment import names
from storage.segment.checked_scan import CheckedScan
from storage.segment.names import FileName, Kind
from storage.segment.rolling import RollReason
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.log import Log

RECORDS: Final = 10
FEW, MANY = 4, 60


def store_with_segments(path: Path, count: int, *, forget: tuple[Kind, ...] = ()) -> Path:
    """Make a store with a partition of so many segments more, which are empty, and forget files of these kinds."""
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1)
        rows = [(Clock().now_ms(), b"key", b"value %d" % n, ()) for n in range(RECORDS)]
        (batch,) = batches_of_rows(rows, base_offset=None)
        store.log_to_write("t", 0).append_as_leader(batch, leader_epoch=0)
    partition = path / "t-0"
    for offset in range(RECORDS, RECORDS + count):
        (partition / str(FileName(offset, Kind.LOG))).touch()
    for kind in forget:
        for file in partition.glob(f"*{kind}"):
            file.unlink()
    return path


def open_to_write(path: Path, use: Callable[[Log], None] = lambda _: None) -> None:
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        use(store.log_to_write("t", 0))


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> list[object]:
    """Return a list that gets an item for each call of the method."""
    calls: list[object] = []
    original = getattr(owner, method)

    def counting(self: object, *arguments: object, **named: object) -> object:
        calls.append(arguments)
        return original(self, *arguments, **named)

    monkeypatch.setattr(owner, method, counting)
    return calls


@pytest.mark.parametrize("forget", [(), (Kind.SNAPSHOT,)], ids=["snapshots", "no snapshots"])
def test_recovery_lists_names_as_often_for_many_segments_as_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: tuple[Kind, ...]
) -> None:
    """All of them lack their indexes, and are trusted."""
    listings = counted(monkeypatch, ListedDirectory, "names")
    numbers = []
    for count in (FEW, MANY):
        path = store_with_segments(tmp_path / str(count), count, forget=forget)
        listings.clear()
        open_to_write(path)
        numbers.append(len(listings))
        assert len(list((path / "t-0").glob(f"*{Kind.TIME_INDEX}"))) == count + 1
    assert numbers[0] == numbers[1]


def test_recovery_reads_the_first_segment_as_often_though_there_is_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = counted(monkeypatch, RealDirectory, "open_reading")
    first = (str(FileName(0, Kind.LOG)),)
    numbers = []
    for count in (FEW, MANY):
        forgotten = (Kind.SNAPSHOT, Kind.OFFSET_INDEX, Kind.TIME_INDEX)
        path = store_with_segments(tmp_path / str(count), count, forget=forgotten)
        opened.clear()
        open_to_write(path)
        numbers.append(opened.count(first))
    assert numbers[0] == numbers[1]


def test_recovery_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = store_with_segments(tmp_path / "store", FEW)
    monkeypatch.setattr(recovery, "Interval", lambda: Interval(-1.0))
    with caplog.at_level(logging.INFO):
        open_to_write(path)
    assert "t-0 is being recovered: 2 segments read, of 5" in caplog.messages


def test_an_empty_segment_is_not_opened_in_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store_with_segments(tmp_path / "store", MANY)
    open_to_write(path)
    opened = counted(monkeypatch, RealDirectory, "open_file")
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        view = store.log("t", 0).view
        opened.clear()
        assert [piece.last_offset for _, piece in batches_past_damage(view, 0)] == [RECORDS - 1]
        assert len(opened) <= FEW
        (path / "t-0" / str(FileName(RECORDS + 5, Kind.LOG))).unlink()
        with pytest.raises(FileNotFoundError):
            list(batches_past_damage(view, 0))
        assert len(list(batches_past_damage(view, 0, before=RECORDS + 5))) == 1


def test_snapshots_are_added_and_removed_by_their_offsets(tmp_path: Path) -> None:
    directory: Directory = Files().directory(tmp_path)
    snapshots = SnapshotFiles(directory, offsets=())
    for offset in (30, 10, 20, 20, 40):
        snapshots.write(offset, (), sync=False)
    assert snapshots.offsets == [10, 20, 30, 40]
    snapshots.remove_all([40, 10, 50])
    assert snapshots.mark_deleted(25) is None
    assert snapshots.mark_deleted(20) == f"{FileName(20, Kind.SNAPSHOT)}.deleted"
    assert snapshots.offsets == [30]
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == [f"{FileName(20, Kind.SNAPSHOT)}.deleted", str(FileName(30, Kind.SNAPSHOT))]


def test_a_new_file_is_as_open_as_the_last_one_made_and_names_are_not_listed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_with_segments(tmp_path / "store", 0)
    listings = counted(monkeypatch, ListedDirectory, "names")

    def in_directory(log: Log) -> None:
        def place(offset: int) -> Path:
            return path / "t-0" / str(FileName(offset, Kind.OFFSET_INDEX))

        def mode_of_new(offset: int) -> int:
            log.directory.open_writing(place(offset).name, create=True).close()
            return place(offset).stat().st_mode & 0o777

        def change_mode(offset: int, mode: int) -> None:
            place(offset).touch()
            place(offset).chmod(mode)

        change_mode(100, 0o600)
        change_mode(500, 0o604)
        listings.clear()
        assert (mode_of_new(200), len(listings)) == (0o600, 1)
        assert (mode_of_new(300), len(listings)) == (0o600, 1)
        change_mode(300, 0o640)
        assert (mode_of_new(400), len(listings)) == (0o640, 1)
        assert (mode_of_new(600), len(listings)) == (0o604, 2)  # another segment comes before it
        place(600).unlink()
        assert (mode_of_new(700), len(listings)) == (0o604, 3)  # the last one made is gone
        assert (mode_of_new(650), len(listings)) == (0o604, 4)  # it comes before the last one made

    open_to_write(path, in_directory)


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "crashed"])
def test_names_are_listed_as_often_for_many_splits_as_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_clean: bool
) -> None:
    """Each segment has two batches that lie too far apart for one."""
    listings = counted(monkeypatch, ListedDirectory, "names")
    scans = counted(monkeypatch, CheckedScan, "__iter__")
    numbers, segments = [], list[int]()
    for count in (FEW, MANY):
        path = store_with_segments(tmp_path / str(count), 0)
        (batch,) = batches_of_rows([(Clock().now_ms(), b"key", b"value", ())], base_offset=None)
        for number in range(1, count + 1):
            base = number * 2**33
            log = path / "t-0" / str(FileName(base, Kind.LOG))
            log.write_bytes(b"".join(offset.to_bytes(8, "big") + bytes(batch)[8:] for offset in (base, base + 2**32)))
            log.chmod(0o604)
        if not is_clean:
            (path / ".kafka_cleanshutdown").unlink()
            (path / "recovery-point-offset-checkpoint").unlink()
        listings.clear()
        scans.clear()
        open_to_write(path, lambda log: segments.append(len(log.view.segments)))
        numbers.append((len(listings), len(scans) - 2 * count))
        assert segments.pop() == 1 + 2 * count
        parts = [each for each in (path / "t-0").iterdir() if each.suffix in {".log", ".index"} and int(each.stem) > 10]
        assert {each.stat().st_mode & 0o777 for each in parts} == {0o604}
    assert numbers[0] == numbers[1]


def test_an_append_begins_no_segment_that_would_not_be_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_with_segments(tmp_path / "store", 0)
    monkeypatch.setattr(names, "SEGMENTS_MAX", 3)
    (batch,) = batches_of_rows([(Clock().now_ms(), b"key", b"value", ())], base_offset=None)

    def fill(log: Log) -> None:
        for _ in range(2):
            log.roll()
            log.append_as_leader(batch, leader_epoch=0)
        with pytest.raises(TooManySegmentsError, match="would have 4 segments, and no more than 3 are taken in"):
            log.roll()
        log.append_as_leader(batch, leader_epoch=0)
        monkeypatch.setattr(log_writer, "roll_reason", lambda *_: RollReason.SIZE)
        before = log.view.end_offset
        for _ in range(2):
            with pytest.raises(TooManySegmentsError, match="would have 4 segments"):
                log.append_as_leader(batch, leader_epoch=0)
        assert log.view.end_offset == before
        assert not log.is_poisoned
        log.remove_before(log.view.bases[1])
        log.append_as_leader(batch, leader_epoch=0)

    open_to_write(path, fill)
