"""Splits of a log that changes between planning and reading: what is there is read once, and what is gone is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pytest
from keyed_logs import KeyedLog
from memory_logs import DIRECTORY, LogOnMemory

from storage.clock import Clock
from storage.errors import ChecksumError, FramingError, LogChangedError, RecordsGoneError
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.segment.names import Kind
from storage.split.reading import SplitReader
from storage.split.splits import PartitionPlace, splits_of
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    import os

    from storage.errors import CorruptBatchError
    from storage.files import ReadableFile
    from storage.split.splits import Split

PLACE = PartitionPlace("/", "topic", 0)


def refuse(error: Exception) -> None:
    raise error


def filled(count: int = 60) -> KeyedLog:
    """A log of several segments; every third record has a key of its own."""
    lab = KeyedLog()
    for number in range(count):
        lab.put((f"key-{number if number % 3 == 0 else number % 2}", f"value-{number}"))
    lab.run_tasks()
    return lab


def followed(lab: LogOnMemory) -> FollowedLog:
    return FollowedLog(Clock(), lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=2**62)


def planned(lab: LogOnMemory, *, size_bytes: int = 200, isolation: Isolation = Isolation.UNCOMMITTED) -> list[Split]:
    log = followed(lab)
    start, end = log.view.start_offset, log.view.bound(isolation)
    splits = splits_of(log, PLACE, start, end, size_bytes=size_bytes, isolation=isolation, on_loss=refuse)
    assert len(splits) > len({split.base_offset for split in splits}) > 1
    return splits


def read(lab: LogOnMemory, splits: list[Split], **options: object) -> list[tuple[int, str]]:
    reader = SplitReader(lab.files, Clock(), columns=("offset", "value"), **{"on_loss": refuse, **options})
    return [
        (offset, value.decode())
        for split in splits
        for batch in reader.read(split)
        for offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def values(lab: KeyedLog) -> list[tuple[int, str]]:
    return [(offset, value or "") for offset, _, value in lab.rows()]


def path_of(split: Split) -> str:
    return f"{DIRECTORY}/{split.log_name}"


def test_what_is_appended_and_rolled_meanwhile_is_not_read() -> None:
    lab = filled()
    before, splits = values(lab), planned(lab)
    for number in range(40):
        lab.put((f"later-{number}", "later"))
    assert read(lab, splits) == before


@pytest.mark.parametrize("size_bytes", [1, 150, 2**30])
def test_a_segment_that_was_compacted_is_read_as_it_is_now(size_bytes: int) -> None:
    lab = filled()
    before = values(lab)
    log = followed(lab)
    splits = splits_of(log, PLACE, 0, log.view.end_offset, size_bytes=size_bytes, on_loss=refuse)
    lab.compact()
    for name in lab.files.names(DIRECTORY):
        if name.endswith(".deleted"):
            lab.files.remove(f"{DIRECTORY}/{name}")
    after = values(lab)
    assert len(after) < len(before)
    assert read(lab, splits) == after


def test_what_retention_took_is_told_and_the_rest_read() -> None:
    lab = filled()
    before, splits = values(lab), planned(lab)
    second = lab.log.view.segments[2].base_offset
    for name in lab.log.remove_before(second):
        lab.log.directory.remove(name)
    with pytest.raises(
        RecordsGoneError, match=f"records of topic-0 are gone: offsets 0 to 2; the log begins at {second}"
    ):
        read(lab, splits)
    told: list[RecordsGoneError] = []
    assert read(lab, splits, on_loss=told.append) == [row for row in before if row[0] >= second]
    assert len(told) == sum(split.start_offset < second for split in splits)


def test_what_was_cut_off_is_told_and_the_rest_read() -> None:
    lab = filled()
    before, splits = values(lab), planned(lab)
    lab.log.truncate_to(33)
    with pytest.raises(RecordsGoneError, match="topic-0 has nothing at offsets 33 to 35: its next offset is 33"):
        read(lab, splits)
    told: list[RecordsGoneError] = []
    assert read(lab, splits, on_loss=told.append) == before[:33]
    assert told


def test_a_log_that_is_cut_while_it_is_read_is_read_as_far_as_it_goes() -> None:
    lab = LogOnMemory()
    for sequence in range(6):
        lab.produce(b"%d" % sequence * 300, sequence)
    log = followed(lab)
    split = splits_of(log, PLACE, 0, 6, on_loss=refuse)[-1]
    assert split.log_bytes is None
    told: list[RecordsGoneError] = []
    cutting = CuttingFiles(lab.files, path_of(split), at_bytes=next(log.view.batches(3)).position + 10)
    reader = SplitReader(cutting, Clock(), columns=("offset",), on_loss=told.append)
    assert sum(batch.num_rows for batch in reader.read(split)) == 3
    assert [error.reason for error in told] == ["topic-0 has nothing at offsets 3 to 5: its next offset is 3"]


class CuttingFiles(MemoryFiles):
    """Cuts a file right after it was opened for the first time."""

    def __init__(self, files: MemoryFiles, path: str, *, at_bytes: int) -> None:
        self.__dict__.update(files.__dict__)
        self._files, self._path, self._at_bytes = files, path, at_bytes
        self._opened = 0

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        file = self._files.open_reading(path)
        if str(path) == self._path:
            self._opened += 1
            if self._opened == 1:
                return _CutLater(file, self._cut)
        return file

    def _cut(self) -> None:
        with self._files.open_writing(self._path) as file:
            file.truncate(self._at_bytes)


class _CutLater:
    """A file that is cut once it was found to be what was planned, by the bytes at both ends."""

    def __init__(self, file: ReadableFile, cut: object) -> None:
        self.path = file.path
        self._file, self._cut, self._reads = file, cut, 0

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._reads += 1
        if self._reads == 3:
            self._cut()
        return self._file.read_at(position, size_bytes)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_a_log_that_never_stays_is_given_up() -> None:
    lab = filled()
    (split, *_) = planned(lab)

    class Moving(SplitReader):
        def _open(self, _split: Split) -> None:
            """It is never what it was."""

    with pytest.raises(LogChangedError, match="changes faster than it can be read"):
        list(Moving(lab.files, Clock(), on_loss=refuse).read(split))
    assert read(lab, [split]) == [row for row in values(lab) if row[0] < split.end_offset]


def test_aborted_records_and_markers_are_left_out() -> None:
    lab = LogOnMemory()
    kept = []
    for sequence in range(30):
        committed = sequence % 3 != 0
        offset = lab.produce(b"%03d" % sequence * 30, sequence, transactional=True)
        kept += [offset] if committed else []
        lab.end_transaction(committed=committed)
    opened = lab.produce(b"open", 30, transactional=True)
    committed = planned(lab, isolation=Isolation.COMMITTED, size_bytes=300)
    assert committed[-1].end_offset == opened
    assert [offset for offset, _ in read(lab, committed)] == kept
    uncommitted = planned(lab, size_bytes=300)
    assert [offset for offset, _ in read(lab, uncommitted)] == [*range(0, opened, 2), opened]


def damage(lab: LogOnMemory, path: str, position: int, data: bytes) -> None:
    with lab.files.open_writing(path) as file:
        file.write_at(position, [data])


def test_a_damaged_batch_is_told_or_passed_over() -> None:
    lab = filled()
    before = values(lab)
    segment = lab.log.view.segments[1]
    victim = list(segment.batches())[2]
    path = str(segment.path(Kind.LOG))
    damage(lab, path, victim.position + victim.size_bytes - 1, b"\xff")
    for size_bytes in (1, 200, 2**30):
        splits = splits_of(followed(lab), PLACE, 0, 60, size_bytes=size_bytes, on_loss=refuse)
        with pytest.raises(ChecksumError) as raised:
            read(lab, splits)
        assert (raised.value.path, raised.value.position) == (path, victim.position)
        told: list[CorruptBatchError] = []
        assert read(lab, splits, on_damage=told.append) == [row for row in before if row[0] != victim.last_offset]
        assert [error.position for error in told] == [victim.position]


def test_an_offset_that_no_checksum_covers_is_told() -> None:
    lab = filled()
    segment = lab.log.view.segments[1]
    victim = list(segment.batches())[2]
    first, last = segment.base_offset, lab.log.view.segments[2].base_offset - 1
    place = f"the offsets from 10000 to 10000, in the place of offsets {first} to {last}"
    for offset, reason in ((10_000, place), (victim.last_offset - 1, "follows on one")):
        damage(lab, str(segment.path(Kind.LOG)), victim.position, offset.to_bytes(8, "big"))
        splits = splits_of(followed(lab), PLACE, 0, 60, on_loss=refuse)
        with pytest.raises(Exception, match=reason):
            read(lab, splits)


def test_what_follows_the_last_whole_batch_is_told_unless_it_is_zeros() -> None:
    lab = filled()
    before = values(lab)
    first, last = lab.log.view.segments[0], lab.log.view.segments[-1]
    damage(lab, str(first.path(Kind.LOG)), first.size_bytes, bytes(64))
    splits = splits_of(followed(lab), PLACE, 0, 60, on_loss=refuse)
    assert read(lab, splits) == before
    damage(lab, str(first.path(Kind.LOG)), first.size_bytes, b"\1" * 64)
    splits = splits_of(followed(lab), PLACE, 0, 60, on_loss=refuse)
    with pytest.raises(FramingError):
        read(lab, splits)
    told: list[CorruptBatchError] = []
    assert read(lab, splits, on_damage=told.append) == before
    assert len(told) == 1
    damage(lab, str(last.path(Kind.LOG)), last.size_bytes, b"\xff" * 64)
    with pytest.raises(FramingError):
        splits_of(followed(lab), PLACE, 0, 60, on_loss=refuse)
    assert splits_of(followed(lab), PLACE, 0, 60, checks_end=False, on_loss=refuse)
