"""Pieces of a log that several processes rewrite at the same time, before one of them puts the log together.

A piece is some segments in a row, and its copy begins with a segment of its own. The log that is put together takes a
copy only if the segments are still those that were copied; all others it rewrites itself. So the result never depends
on a piece, nor on the end of the process that made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.log.view import LogView, SegmentSlice
    from storage.log_dir.checkpoints import Partition

Tally = TypeVar("Tally")


class CopiedSegment(NamedTuple):
    """A segment as it was copied."""

    base_offset: int
    size_bytes: int
    modified_ms: int


class LogPiece(NamedTuple):
    """Segments of a partition to be copied, by the base offsets of the first and the last."""

    partition: Partition
    first_base_offset: int
    last_base_offset: int
    size_bytes: int

    def of(self, slices: Iterable[SegmentSlice]) -> list[SegmentSlice]:
        """Return the segments of the piece."""
        bounds = range(self.first_base_offset, self.last_base_offset + 1)
        return [part for part in slices if part.segment.base_offset in bounds]


class BuiltSegments(NamedTuple):
    """Complete segments in a directory, with their number and size, and the offset after them."""

    directory: str
    segments: int
    size_bytes: int
    next_offset: int


def pieces_of(partition: Partition, view: LogView, size_bytes: int) -> list[LogPiece]:
    """Cut a log between its segments into pieces of this size or more; one piece if its segments allow no more."""
    pieces: list[LogPiece] = []
    pending: list[tuple[int, int]] = []
    for part in view.slices(view.segments[0].base_offset) if view.segments else ():
        pending.append((part.segment.base_offset, slice_bytes(part)))
        if sum(size for _, size in pending) >= size_bytes:
            pieces.append(_piece(partition, pending))
            pending = []
    return [*pieces, _piece(partition, pending)] if pending else pieces


def _piece(partition: Partition, segments: Sequence[tuple[int, int]]) -> LogPiece:
    return LogPiece(partition, segments[0][0], segments[-1][0], sum(size for _, size in segments))


def copied_segment(part: SegmentSlice) -> CopiedSegment:
    """Return what a copy of a segment, as it is now, is known by."""
    status = part.segment.log_status()
    return CopiedSegment(part.segment.base_offset, slice_bytes(part), 0 if status is None else status.modified_ms)


def slice_bytes(part: SegmentSlice) -> int:
    """Return the size of a segment, up to the end of its last batch."""
    return part.segment.size_bytes if part.end is None else part.end
