"""Counts of the batches of a segment, taken from their headers in one read and in bounded memory.

Checksums are not checked. Records are read only where a header does not count them: in compressed batches of the old
versions, and in the batch that holds the log start offset.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import CorruptBatchError
from storage.segment.names import SEGMENT_KINDS, Kind
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from storage.files import Directory
    from storage.record.reading import Batch
    from storage.segment.segment import Segment


class CountedRange(NamedTuple):
    """The batches to count in one segment: those of its log from the position `start` up to `end`.

    Records below `start_offset` are hidden and do not count. `damage` is the damage at the end; None if the log ends as
    a log may. `index_bytes` is the length of the index files beside the log. A count needs nothing else, on any
    machine.
    """

    path: str
    start: int
    end: int
    start_offset: int
    index_bytes: int
    damage: CorruptBatchError | None

    @property
    def name(self) -> str:
        """The name of the log."""
        return self.path.rpartition("/")[2]

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        return int(self.name.partition(".")[0])

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return self.end - self.start

    @classmethod
    def of(cls, segment: Segment, end: int | None, start_offset: int) -> CountedRange:
        """Return the range of a segment, in a log from `start_offset` on; raises `FileNotFoundError` if it is gone."""
        bound = segment.size_bytes if end is None else end
        found = [segment.own_files.status(kind) for kind in SEGMENT_KINDS if kind is not Kind.LOG]
        start: int | None = None
        damage = None
        try:
            start = segment.locate(start_offset, end) if segment.base_offset < start_offset else 0
            segment.check_end(end)
        except CorruptBatchError as error:
            damage = error.located(path=segment.path(Kind.LOG))
        return cls(
            str(segment.path(Kind.LOG)),
            bound if start is None else start,
            bound,
            start_offset,
            sum(status.size_bytes for status in found if status is not None),
            damage,
        )


@dataclass
class BatchCounts:
    """The counts of a range.

    `kinds` counts batches by magic and attributes. `batch_bytes` is their size, `largest_batch_bytes` that of the
    largest. `first_timestamp` is the smallest first timestamp of a batch and `last_timestamp` the largest of all; both
    are None where no record has a timestamp.
    """

    kinds: Counter[tuple[int, int]] = field(default_factory=Counter)
    records: int = 0
    batch_bytes: int = 0
    largest_batch_bytes: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    damage: CorruptBatchError | None = None


def count_batches(directory: Directory, counted: CountedRange) -> BatchCounts:
    """Count a range of a log in the directory, up to damage; raises `FileNotFoundError` if the log is gone."""
    counting = _Counting(counted.start_offset)
    damage = counted.damage
    try:
        with directory.open_reading(counted.name) as file:
            for batch in LogScan(file, start=counted.start, end=counted.end):
                counting.add(batch)
    except CorruptBatchError as error:
        damage = error.located(path=counted.path)
    counting.found.damage = damage
    return counting.result()


class _Counting:
    def __init__(self, start_offset: int) -> None:
        self.found = BatchCounts()
        self._start_offset = start_offset
        self._smallest: int | None = None
        self._largest = -1

    def add(self, batch: Batch) -> None:
        found, size_bytes = self.found, batch.size_bytes
        found.kinds[batch.magic, batch.attributes] += 1
        found.batch_bytes += size_bytes
        if size_bytes > found.largest_batch_bytes:
            found.largest_batch_bytes = size_bytes
        if batch.max_timestamp > self._largest:
            self._largest = batch.max_timestamp
        if batch.count is None or batch.base_offset < self._start_offset:
            self._add_records(batch)
        else:
            found.records += batch.count
            if batch.count:
                self._begin_at(_first_timestamp(batch))

    def _add_records(self, batch: Batch) -> None:
        """Count records one by one."""
        first = None
        for record in batch.records():
            if record.offset >= self._start_offset:
                self.found.records += 1
                first = record.timestamp if first is None else first
        if first is not None:
            self._begin_at(first)

    def _begin_at(self, timestamp: int) -> None:
        if timestamp >= 0 and (self._smallest is None or timestamp < self._smallest):
            self._smallest = timestamp

    def result(self) -> BatchCounts:
        self.found.first_timestamp = self._smallest
        self.found.last_timestamp = self._largest if self._largest >= 0 else None
        return self.found


def _first_timestamp(batch: Batch) -> int:
    """Return the first record's timestamp."""
    timestamp = batch.first_timestamp
    return next(batch.records()).timestamp if timestamp is None else timestamp
