"""The verification of partitions divided among processes.

A partition is verified as a whole. One that would keep a process busy long after the others is verified segment by
segment instead, and then read once more in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.verify.partition import CutPartition, PartitionResult, SegmentPiece, verify_partition
from storage.verify.workers import Work, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.verify.log_dir_check import PartitionTarget
    from storage.verify.segment_result import SegmentResult
    from storage.verify.workers import Crew

_CUT_FROM_BYTES: Final = 128 * 1024 * 1024  # below, reading a log twice costs more than it saves
_PARTS: Final = 2  # a partition stays whole up to this part of the work of each process


class WholePartition(NamedTuple):
    """A partition that is verified as a whole."""

    target: PartitionTarget

    @property
    def size_bytes(self) -> int:
        """The size of its log."""
        return self.target.size_bytes

    def verify(self, advance: Callable[[int], None]) -> PartitionResult:
        """Verify it."""
        return verify_partition(self.target.expected, advance=advance)


class PartitionPiece(NamedTuple):
    """A segment of a partition that is verified in pieces."""

    target: PartitionTarget
    piece: SegmentPiece

    @property
    def size_bytes(self) -> int:
        """The size of its log."""
        return self.piece.size_bytes

    def verify(self, advance: Callable[[int], None]) -> SegmentResult | None:
        """Verify it; None if its log is gone."""
        return self.piece.verify(advance)


class VerifiedPieces(NamedTuple):
    """A partition whose pieces are all verified."""

    target: PartitionTarget
    cut: CutPartition
    results: Sequence[SegmentResult | None]

    def verify(self, advance: Callable[[int], None]) -> PartitionResult:  # noqa: ARG002 -- its bytes were counted before
        """Read the log once more in order, for what its segments do not tell by themselves."""
        return self.cut.result(self.results)


class Division(NamedTuple):
    """The partitions that are verified as a whole, the largest first, and those that are verified in pieces."""

    whole: Sequence[PartitionTarget]
    cut: Sequence[tuple[PartitionTarget, CutPartition]]

    @classmethod
    def of(cls, targets: Sequence[PartitionTarget], processes: int) -> Division:
        """Divide partitions among so many processes."""
        total_bytes = sum(target.size_bytes for target in targets)
        cut_from_bytes = max(_CUT_FROM_BYTES, total_bytes // (_PARTS * processes) + 1)
        whole: list[PartitionTarget] = []
        cut: list[tuple[PartitionTarget, CutPartition]] = []
        for target in targets:
            pieces = CutPartition.of(target.expected) if target.size_bytes >= cut_from_bytes else None
            if pieces is None or len(pieces.pieces) == 1:
                whole.append(target)
            else:
                cut.append((target, pieces))
        whole.sort(key=lambda target: -target.size_bytes)
        return cls(whole, cut)

    @property
    def units(self) -> list[WholePartition | PartitionPiece]:
        """The work that can be done in any order: the pieces of each partition in theirs, and the whole partitions."""
        pieces = [PartitionPiece(target, piece) for target, cut in self.cut for piece in cut.pieces]
        return [*pieces, *map(WholePartition, self.whole)]


def verify_in_processes(
    division: Division, crew: Crew, *, advance: Callable[[int], None]
) -> Iterator[tuple[PartitionTarget, PartitionResult]]:
    """Yield each partition and its result, as they come."""
    cuts = {target.expected.directory.path: cut for target, cut in division.cut}
    verified: dict[str, dict[int, SegmentResult | None]] = {path: {} for path in cuts}
    waiting: deque[Work] = deque(division.units)
    for work, result in spread(waiting, crew, advance=advance):
        if isinstance(work, PartitionPiece):
            path = work.target.expected.directory.path
            cut, known = cuts[path], verified[path]
            known[work.piece.expected.base_offset] = result
            if len(known) == len(cut.pieces):
                results = [known.pop(piece.expected.base_offset) for piece in cut.pieces]
                waiting.appendleft(VerifiedPieces(work.target, cut, results))
        else:
            assert isinstance(work, (WholePartition, VerifiedPieces))
            yield work.target, result
