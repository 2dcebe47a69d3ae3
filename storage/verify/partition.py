"""One partition's directory verified, every byte of it, without changing one: as a whole, or a segment at a time.

A broker may be writing meanwhile. Each file is read up to its end at that time. If the directory's listing differs
before and after, damage counts only if a second check finds the very same. Notices are those of the last check.

A `CutPartition` spreads one partition over processes. `SegmentPiece.verify` reads one segment by itself, in any order;
`CutPartition.result` then goes through the log in order, which reads it a second time. The findings are those of
`verify_partition`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import CorruptCheckpointError, LogChangedError
from storage.log.epochs import LeaderEpochs, may_begin_at
from storage.log.listed_names import is_of_log
from storage.segment.names import FileName, Kind, live_offsets
from storage.verify.context import PartitionContext, SegmentExpectation
from storage.verify.finding import Finding, Severity, unreadable
from storage.verify.outline_check import OutlineCheck
from storage.verify.partition_check import PartitionCheck
from storage.verify.segment_result import verify_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from storage.files import Directory, FileStatus
    from storage.verify.context import LogEnd, PartitionExpectation
    from storage.verify.segment_result import SegmentResult

_CHECKS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The findings of a partition, with paths relative to its directory, and how much was read."""

    findings: Sequence[Finding] = ()
    topic_id: UUID | None = None
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, check: PartitionCheck) -> Self:
        """Run the check."""
        check.run()
        return cls(
            findings=check.findings,
            topic_id=check.topic_id,
            segments=check.segments,
            batches=check.batches,
            size_bytes=check.size_bytes,
        )

    @property
    def has_damage(self) -> bool:
        """True if anything is damaged."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    def confirmed(self, known: Collection[tuple[object, ...]]) -> Self:
        """Return the result without the damage whose identity is not among the known."""
        return replace(
            self,
            findings=[
                finding
                for finding in self.findings
                if finding.severity is not Severity.DAMAGE or finding.identity in known
            ],
        )


def verify_partition(expected: PartitionExpectation, *, advance: Callable[[int], None]) -> PartitionResult:
    """Verify a partition; `advance` is called with the bytes of logs that were read since the last call.

    A directory that is gone has no findings.
    """
    return _believed(expected, advance, PartitionCheck)


def outline_partition(expected: PartitionExpectation, end: LogEnd | None) -> PartitionResult:
    """Check a partition as `OutlineCheck` does, with the `end` of its log if a reader has found it."""
    return _believed(expected, lambda _: None, lambda context, listing: OutlineCheck(context, listing, end))


def _believed(
    expected: PartitionExpectation,
    advance: Callable[[int], None],
    made: Callable[[PartitionContext, Mapping[str, FileStatus]], PartitionCheck],
) -> PartitionResult:
    """Return the result of a check, or what several of them agree on."""
    directory = expected.directory
    result: PartitionResult | None = None
    for _ in range(_CHECKS_MAX):
        try:
            before = _listed(directory)
            context = PartitionContext(directory, expected, advance)
            found = PartitionResult.of(made(context, before))
            is_believed = not found.has_damage or _listed(directory) == before
        except FileNotFoundError:
            if directory.own_status() is None:
                return PartitionResult()
            continue  # a file went while it was read
        except OSError as error:
            return PartitionResult(findings=[unreadable("", error)])
        if found.has_damage and expected.is_clean and not expected.is_clean_still():
            expected, result = replace(expected, is_clean=False), None
            continue  # a broker has opened the log, and its files differ from those of a closed one
        again = None if result is None else {finding.identity for finding in result.findings}
        if again is not None:
            found = found.confirmed(again)
        if is_believed or again is not None:
            return found
        result = found
    # The directory never stayed long enough for a second check.
    return PartitionResult() if result is None else result.confirmed(frozenset())


class SegmentPiece(NamedTuple):
    """A segment of a partition, and the size of its log when the partition was cut."""

    partition: PartitionExpectation
    expected: SegmentExpectation
    size_bytes: int

    def verify(self, advance: Callable[[int], None] = lambda _: None) -> SegmentResult | None:
        """Verify the segment; None if its log is gone. `advance` is called with the bytes of it that were read."""
        try:
            context = PartitionContext(self.partition.directory, self.partition, advance)
            return verify_segment(context, self.expected)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class CutPartition:
    """A partition as it was when it was cut. It and its pieces can be sent to other processes."""

    expected: PartitionExpectation
    listing: Mapping[str, FileStatus]
    pieces: tuple[SegmentPiece, ...]

    @classmethod
    def of(cls, expected: PartitionExpectation) -> Self | None:
        """Cut a partition; None if it cannot be listed. `verify_partition` says why."""
        directory = expected.directory
        try:
            listing = _listed(directory)
        except OSError:
            return None
        bases = live_offsets(listing, Kind.LOG)
        pieces = [
            SegmentPiece(
                expected,
                _expected_segment(expected, base, is_last=base == bases[-1]),
                listing[str(FileName(base, Kind.LOG))].size_bytes,
            )
            for base in bases
        ]
        return cls(expected, listing, tuple(pieces))

    def result(self, results: Sequence[SegmentResult | None]) -> PartitionResult:
        """Return the partition's result, given those of its pieces in their order.

        If the directory has changed since it was cut and something seems damaged, verify the partition as a whole.
        """
        known = {
            piece.expected.base_offset: result
            for piece, result in zip(self.pieces, results, strict=True)
            if result is not None
        }
        if len(known) == len(self.pieces):
            directory = self.expected.directory
            try:
                context = PartitionContext(directory, self.expected)
                found = PartitionResult.of(PartitionCheck(context, self.listing, results=known))
                if not found.has_damage or _listed(directory) == self.listing:
                    return found
            except (LogChangedError, OSError):
                pass  # verifying the whole finds out what that means
        return verify_partition(self.expected, advance=lambda _: None)


def _expected_segment(expected: PartitionExpectation, base_offset: int, *, is_last: bool) -> SegmentExpectation:
    is_active = is_last and not expected.is_clean
    begins_epoch = False
    if is_active:
        try:
            begins_epoch = may_begin_at(LeaderEpochs.load(expected.directory).entries, base_offset)
        except (CorruptCheckpointError, OSError):
            begins_epoch = True
    return SegmentExpectation(base_offset, is_active, begins_epoch)


def _listed(directory: Directory) -> dict[str, FileStatus]:
    """Return the files of a directory, and directories that are called like them.

    Raises an `OSError` if it cannot be listed.
    """
    found = directory.statuses().items()
    return {name: status for name, status in found if not status.is_directory or is_of_log(name)}
