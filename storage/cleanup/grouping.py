"""Which segments a cleaner puts together: neighbours of which one segment can be made, whatever is left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.record.layout import LARGEST_OFFSET_DELTA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.config import TopicConfig


class SegmentExtent(NamedTuple):
    """A segment that may be compacted: what it takes, and the offset before which it ends."""

    base_offset: int
    end_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def grouped(segments: Sequence[SegmentExtent], config: TopicConfig) -> list[list[SegmentExtent]]:
    """The segments, which follow on each other, in groups as large as one segment may be; none is without a group."""
    groups: list[list[SegmentExtent]] = []
    for segment in segments:
        if groups and _fits(segment, groups[-1], config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(segment: SegmentExtent, group: Sequence[SegmentExtent], config: TopicConfig) -> bool:
    together = [*group, segment]
    return (
        sum(each.size_bytes for each in together) <= config.segment_bytes
        and sum(each.offset_index_bytes for each in together) <= config.segment_index_bytes
        and sum(each.time_index_bytes for each in together) <= config.segment_index_bytes
        # An empty segment has no offsets; if they counted, each 2^31 of them would leave one behind.
        and (segment.size_bytes == 0 or segment.end_offset - 1 - group[0].base_offset <= LARGEST_OFFSET_DELTA)
    )
