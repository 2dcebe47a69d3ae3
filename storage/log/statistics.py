"""Numbers about a log: its batches are counted range by range, in any process, and the counts added up."""

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
    """A log between its start and its end.

    `size_bytes` is what its segments' batches take, the hidden ones of the first included, and `index_bytes` the length
    of the index files. `batch_bytes` is what the batches take that are counted, and `largest_batch_bytes` the largest
    of them. `codecs` and `magics` say how many batches have which. `first_timestamp` is the smallest that a batch
    begins with, `last_timestamp` the largest of all; both are None where no record has one. `damages` are places that
    the batches of a segment could not be counted beyond.
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
        """Put in what was counted in a segment's range; the order of the segments is only that of the damages."""
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
    """Count what the view shows; segments that are deleted meanwhile are left out."""
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
