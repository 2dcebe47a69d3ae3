"""The part of a log that lies below an offset, as its files have it: whole segments, and one that is cut at a batch.

A copy of these bytes is a log of its own. Its last segment has no indexes yet if it was cut; recovery builds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from storage.errors import CorruptBatchError, missing_file
from storage.segment.names import Kind

if TYPE_CHECKING:
    from storage.log.view import LogView, SegmentSlice
    from storage.segment.segment import Segment


class PrefixSegment(NamedTuple):
    """A segment, and how many bytes of its log belong to the prefix. One that `is_last` may be cut, or be written."""

    segment: Segment
    size_bytes: int
    is_last: bool

    @property
    def base_offset(self) -> int:
        """Its first offset."""
        return self.segment.base_offset


class LogPrefix(NamedTuple):
    """The segments of a view up to the last batch that ends at or below a bound; that batch ends at `end_offset`.

    `damage` says why the end of the last segment's batches is not known: then all of its file belongs to the prefix.
    """

    segments: tuple[PrefixSegment, ...]
    start_offset: int
    end_offset: int
    damage: str | None = None

    @classmethod
    def of(cls, view: LogView, bound: int) -> Self:
        """Cut the view. Raises `FileNotFoundError` if a segment is gone."""
        if not view.segments:
            return cls((), view.start_offset, view.end_offset)
        bound = min(max(bound, view.segments[0].base_offset), view.end_offset)
        slices = [part for part in view.slices(view.segments[0].base_offset) if _belongs(part, bound)]
        whole = tuple(PrefixSegment(part.segment, _file_bytes(part.segment), is_last=False) for part in slices[:-1])
        last, damage = slices[-1], None
        try:
            end_offset, size_bytes = _cut(last, bound)
        except CorruptBatchError as error:
            end_offset, size_bytes, damage = bound, _file_bytes(last.segment), error.reason
        return cls(
            (*whole, PrefixSegment(last.segment, size_bytes, is_last=True)),
            min(view.start_offset, end_offset),
            end_offset,
            damage,
        )


def _belongs(part: SegmentSlice, bound: int) -> bool:
    """True if the segment has a batch below the bound, or begins there: an empty one says where the log goes on."""
    return part.segment.base_offset <= bound


def _cut(part: SegmentSlice, bound: int) -> tuple[int, int]:
    """Return the offset and the position after the last batch of the segment that ends at or below the bound."""
    segment = part.segment
    if part.end_offset <= bound:
        segment.check_end(part.end)
        return part.end_offset, segment.size_bytes if part.end is None else part.end
    position = segment.locate(bound, part.end)
    if position is None:  # the offsets up to the bound were compacted away
        segment.check_end(part.end)
        return bound, segment.size_bytes if part.end is None else part.end
    return segment.end_below(bound), position


def _file_bytes(segment: Segment) -> int:
    status = segment.log_status()
    if status is None:
        raise missing_file(segment.path(Kind.LOG))
    return status.size_bytes
