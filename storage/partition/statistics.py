"""What a log holds, in numbers: counted from the headers of its batches, which are read once, in bounded memory.

Checksums and records are not looked at, except where a header does not say how many records there are: in compressed
batches of the old versions, and in the batch that the log's start lies in.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError
from storage.record.batch import RecordBatch
from storage.record.compression import Codec
from storage.record.layout import CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT
from storage.segment.names import SEGMENT_KINDS, Kind

if TYPE_CHECKING:
    from storage.files import Files
    from storage.partition.view import LogView
    from storage.record.reading import Batch
    from storage.segment.segment import Segment

_HEADER_HAS_NO_FIRST_TIMESTAMP: Final = DELETE_HORIZON_BIT | LOG_APPEND_TIME_BIT
_UNKNOWN_CODEC: Final = "unknown"


@dataclass
class LogStatistics:
    """A log between its start and its end.

    `size_bytes` is what its segments' batches take, the hidden ones of the first included, and `index_bytes` the length
    of the index files. `codecs` and `magics` say how many batches have which. `first_timestamp` is the smallest that a
    batch begins with, `last_timestamp` the largest of all; both are None where no record has one. `damages` are places
    that the batches of a segment could not be counted beyond.
    """

    start_offset: int
    end_offset: int
    segments: int = 0
    size_bytes: int = 0
    index_bytes: int = 0
    batches: int = 0
    records: int = 0
    control_batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    magics: Counter[int] = field(default_factory=Counter)
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    damages: list[CorruptBatchError] = field(default_factory=list)


def log_statistics(files: Files, view: LogView) -> LogStatistics:
    """Count what the view shows; segments that are deleted meanwhile are left out."""
    counting = _Counting(LogStatistics(view.start_offset, view.end_offset))
    for segment in view.segments:
        end = view.end_position if segment is view.segments[-1] else None
        try:
            counting.add_segment(files, segment, end)
        except FileNotFoundError:
            continue
    return counting.result()


class _Counting:
    def __init__(self, found: LogStatistics) -> None:
        self._found = found
        self._kinds: Counter[tuple[int, int]] = Counter()  # magic and attributes, whatever the bits mean
        self._smallest: int | None = None
        self._largest = -1

    def add_segment(self, files: Files, segment: Segment, end: int | None) -> None:
        found = self._found
        found.size_bytes += segment.size_bytes if end is None else end
        found.segments += 1
        for kind in SEGMENT_KINDS:
            status = None if kind is Kind.LOG else files.status(segment.path(kind))
            found.index_bytes += 0 if status is None else status.size_bytes
        try:
            self._add_batches(segment, end)
            segment.check_end(end)
        except CorruptBatchError as error:
            found.damages.append(error.located(path=segment.path(Kind.LOG)))

    def _add_batches(self, segment: Segment, end: int | None) -> None:
        start_offset, kinds = self._found.start_offset, self._kinds
        position = segment.locate(start_offset, end) if segment.base_offset < start_offset else 0
        if position is None:
            return
        for batch in segment.batches(position, end):
            kinds[batch.magic, batch.attributes] += 1
            if batch.max_timestamp > self._largest:
                self._largest = batch.max_timestamp
            if not isinstance(batch, RecordBatch):
                self._add_old(batch)
            elif batch.base_offset < start_offset:
                self._add_records(batch)
            else:
                self._found.records += batch.count
                if batch.count:
                    self._begin_at(_first_timestamp(batch))

    def _add_old(self, batch: Batch) -> None:
        if batch.attributes & CODEC_MASK:
            self._add_records(batch)
        else:
            self._found.records += 1
            self._begin_at(batch.max_timestamp)

    def _add_records(self, batch: Batch) -> None:
        """Count records one by one."""
        first = None
        for record in batch.records():
            if record.offset >= self._found.start_offset:
                self._found.records += 1
                first = record.timestamp if first is None else first
        if first is not None:
            self._begin_at(first)

    def _begin_at(self, timestamp: int) -> None:
        if timestamp >= 0 and (self._smallest is None or timestamp < self._smallest):
            self._smallest = timestamp

    def result(self) -> LogStatistics:
        found = self._found
        for (magic, attributes), count in self._kinds.items():
            found.batches += count
            found.magics[magic] += count
            found.codecs[_codec_name(attributes)] += count
            if magic == 2 and attributes & CONTROL_BIT:
                found.control_batches += count
        found.first_timestamp = self._smallest
        found.last_timestamp = self._largest if self._largest >= 0 else None
        return found


def _first_timestamp(batch: RecordBatch) -> int:
    """The first record's timestamp."""
    if not batch.attributes & _HEADER_HAS_NO_FIRST_TIMESTAMP:
        return batch.base_timestamp
    if batch.attributes & LOG_APPEND_TIME_BIT:
        return batch.max_timestamp
    return next(batch.records()).timestamp


def _codec_name(attributes: int) -> str:
    try:
        return Codec(attributes & CODEC_MASK).name.lower()
    except ValueError:
        return _UNKNOWN_CODEC
