"""The segments that a listing of a followed log has, and what the next listing leaves of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.segment.followed_segment import FollowedSegment

if TYPE_CHECKING:
    from storage.segment.names import SegmentNames
    from storage.segment.segment import Segment


class Found(NamedTuple):
    """A segment as listed: its names, the identity of its log's file, and the segment that follows it."""

    names: SegmentNames
    identity: tuple[int, int]
    following: tuple[SegmentNames, tuple[int, int]] | None


def continues(before: dict[Segment, Found], after: dict[Segment, Found]) -> bool:
    """Return True if segments were only deleted from the front and added at the end: known batches are still there."""
    kept = [segment for segment in before if segment in after]
    at_end = list(before)[len(before) - len(kept) :]
    return kept == at_end == list(after)[: len(kept)] and (not before or bool(kept))


def without_hidden(segments: dict[Segment, Found]) -> dict[Segment, Found]:
    """Leave out the segments that `.swap` files are about to replace."""
    swaps = [segment for segment, found in segments.items() if found.names.is_swap]
    if not swaps:
        return segments
    ends = (segment.end.next_offset for segment in swaps if isinstance(segment, FollowedSegment))
    start, end = swaps[0].base_offset, max(ends)
    return {
        segment: found
        for segment, found in segments.items()
        if found.names.is_swap or not start <= segment.base_offset < end
    }
