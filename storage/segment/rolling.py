"""The rules by which a log rolls a new segment. Rolling is left to the log."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from storage.record.layout import LARGEST_OFFSET_DELTA

if TYPE_CHECKING:
    import random

    from storage.config import TopicConfig
    from storage.segment.writable_segment import PlacedBatches, WritableSegment


class RollReason(enum.Enum):
    """The reason why an append goes into a new segment."""

    SIZE = "the segment would exceed segment.bytes"
    AGE = "the segment's first batch is older than segment.ms"
    INDEX_FULL = "an index of the segment is full"
    OFFSET_RANGE = "the offset is more than 2^31 - 1 above the segment's first"


def roll_reason(segment: WritableSegment, placed: PlacedBatches, config: TopicConfig, now_ms: int) -> RollReason | None:
    """Return why the append cannot go into the segment; None if it can.

    Age is counted from the first batch's timestamp; only where that has none, from the segment's creation.
    """
    age_ms = 0
    if segment.size_bytes:
        first = segment.first_timestamp
        age_ms = placed.largest_timestamp - first if first >= 0 else now_ms - segment.created_ms
    age_max_ms = config.segment_age_max_ms - segment.jitter_ms
    outgrown = outgrown_reason(segment.size_bytes, placed.size_bytes, config.segment_bytes, age_ms, age_max_ms)
    if outgrown is not None:
        return outgrown
    if segment.offset_index.is_full or segment.time_index.is_full:
        return RollReason.INDEX_FULL
    if not 0 <= placed.last_offset - segment.base_offset <= LARGEST_OFFSET_DELTA:
        return RollReason.OFFSET_RANGE
    return None


def outgrown_reason(
    size_bytes: int, more_bytes: int, size_bytes_max: int, age_ms: int, age_max_ms: int
) -> RollReason | None:
    """Return why a segment of this size and age takes no more bytes; None if it does. An empty one has no age."""
    if size_bytes > size_bytes_max - more_bytes:
        return RollReason.SIZE
    if size_bytes and age_ms > age_max_ms:
        return RollReason.AGE
    return None


def draw_jitter_ms(config: TopicConfig, rng: random.Random) -> int:
    """Draw the time by which a segment is rolled early for its age, so that many logs do not roll at once."""
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    return rng.randrange(limit_ms) if limit_ms else 0
