"""The files of one segment: the log and its indexes, read, written, followed and replaced."""

from __future__ import annotations

from storage.segment.batch_counts import BatchCounts, CountedRange, count_batches
from storage.segment.followed_segment import FollowedSegment
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, parse_name
from storage.segment.scan import WINDOW_BYTES, Gap, GappedScan, LogScan
from storage.segment.segment import LOOKUP_WINDOW_BYTES, Segment
from storage.segment.truncation import EarliestTruncation

__all__ = [
    "LOOKUP_WINDOW_BYTES",
    "SEGMENT_KINDS",
    "WINDOW_BYTES",
    "BatchCounts",
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
    "count_batches",
    "parse_name",
]
