"""One segment of a log: its files, the walk over its batches, and its indexes (`storage.segment.index`).

`Segment` reads a segment, `FollowedSegment` one that another process may be writing. `LogScan` gives the batches of a
`.log` file, `GappedScan` goes on after damage. `FileName` and `parse_name` are the names of files in a partition.
"""

from __future__ import annotations

from storage.segment.batch_counts import BatchCounts, CountedRange, count_batches
from storage.segment.checked_scan import CheckedScan
from storage.segment.followed_segment import FollowedSegment
from storage.segment.names import (
    SEGMENT_KINDS,
    FileName,
    FileSuffix,
    Kind,
    live_offsets,
    parse_name,
    parsed,
    segments_named,
)
from storage.segment.scan import WINDOW_BYTES, Gap, GappedScan, LogScan, Stretch
from storage.segment.segment import LOOKUP_WINDOW_BYTES, Segment
from storage.segment.truncation import EarliestTruncation

__all__ = [
    "LOOKUP_WINDOW_BYTES",
    "SEGMENT_KINDS",
    "WINDOW_BYTES",
    "BatchCounts",
    "CheckedScan",
    "CountedRange",
    "EarliestTruncation",
    "FileName",
    "FileSuffix",
    "FollowedSegment",
    "Gap",
    "GappedScan",
    "Kind",
    "LogScan",
    "Segment",
    "Stretch",
    "count_batches",
    "live_offsets",
    "parse_name",
    "parsed",
    "segments_named",
]
