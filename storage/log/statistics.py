"""Statistics of a log. Any process may count a range of its batches; the counts are added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from storage.record.compression import Codec
from storage.record.layout import CODEC_MASK, CONTROL_BIT
from storage.segment.batch_counts import BatchCounts, CountedRange, count_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.errors import CorruptBatchError
    from storage.log.view import LogView
    from storage.segment.segment import Segment

_UNKNOWN_CODEC: Final = "unknown"


@dataclass
class LogStatistics:
    """Statistics of a log between its start and its end.

    `size_bytes` is the size of all batches of its segments, those below the log's start included, and `index_bytes`
    that of the index files. `batch_bytes` is the size of the counted batches, and `largest_batch_bytes` that of the
    largest. `codecs` and `magics` count batches by codec and magic. `first_timestamp` is the smallest first timestamp
    of a batch, `last_timestamp` the largest of all; both are None if no record has one. `damages` are the places where
    counting a segment's batches had to stop.
    """

    start_offset: int
    end_offset: int
    segments: int = 0
    size_bytes: int = 0
    index_bytes: int = 0
    batches: int = 0
    batch_bytes: int = 0
    largest_batch_bytes: int = 0
    records: int = 0
    control_batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    magics: Counter[int] = field(default_factory=Counter)
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    damages: list[CorruptBatchError] = field(default_factory=list)

    def add(self, counted: CountedRange, found: BatchCounts) -> None:
        """Add the counts of a segment's range. Ranges may come in any order; `damages` keeps that order."""
        self.segments += 1
        self.size_bytes += counted.end
        self.index_bytes += counted.index_bytes
        self.batch_bytes += found.batch_bytes
        self.largest_batch_bytes = max(self.largest_batch_bytes, found.largest_batch_bytes)
        self.records += found.records
        for (magic, attributes), count in found.kinds.items():
            self.batches += count
            self.magics[magic] += count
            self.codecs[_codec_name(attributes)] += count
            if magic == 2 and attributes & CONTROL_BIT:
                self.control_batches += count
        self.first_timestamp = min(_known(self.first_timestamp, found.first_timestamp), default=None)
        self.last_timestamp = max(_known(self.last_timestamp, found.last_timestamp), default=None)
        if found.damage is not None:
            self.damages.append(found.damage)


def counted_ranges(view: LogView) -> Iterator[CountedRange]:
    """Iterate over the ranges to count in a view, segment by segment. Segments deleted meanwhile are left out."""
    return (counted for _, counted in _ranges(view))


def _ranges(view: LogView) -> Iterator[tuple[Segment, CountedRange]]:
    for segment in view.segments:
        end = view.end_position if segment is view.segments[-1] else None
        try:
            yield segment, CountedRange.of(segment, end, view.start_offset)
        except FileNotFoundError:
            continue


def log_statistics(view: LogView) -> LogStatistics:
    """Count the batches of a view. Segments deleted meanwhile are left out."""
    statistics = LogStatistics(view.start_offset, view.end_offset)
    for segment, counted in _ranges(view):
        try:
            statistics.add(counted, count_batches(segment.directory, counted))
        except FileNotFoundError:
            continue
    return statistics


def _known(*timestamps: int | None) -> list[int]:
    return [timestamp for timestamp in timestamps if timestamp is not None]


def _codec_name(attributes: int) -> str:
    try:
        return Codec(attributes & CODEC_MASK).name.lower()
    except ValueError:
        return _UNKNOWN_CODEC
