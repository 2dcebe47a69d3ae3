"""A partition looked through in pieces, a segment at a time, in whatever processes; the findings stay the same.

A `CutPartition` says what the pieces are. Each is looked at by itself with `SegmentPiece.look`, in any order, and once
all are, `CutPartition.verdict` goes through the log in order, for which it reads it once more. If the directory has
changed meanwhile and something seems damaged, the partition is looked through as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from storage.errors import CorruptCheckpointError, LogChangedError
from storage.log.epochs import LeaderEpochs, may_begin_at
from storage.segment.names import FileName, FileSuffix, Kind, parse_name
from storage.verify.checking import PartitionVerdict, check_partition, listed
from storage.verify.partition_look import PartitionLook
from storage.verify.segment_check import Expected
from storage.verify.segment_look import look_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.files import Files, FileStatus
    from storage.verify.checking import PartitionExpectation
    from storage.verify.segment_look import SegmentLook


def _expected_segment(files: Files, expected: PartitionExpectation, base_offset: int, *, is_last: bool) -> Expected:
    is_active = is_last and not expected.is_clean
    begins_epoch = False
    if is_active:
        try:
            begins_epoch = may_begin_at(LeaderEpochs.load(files, expected.directory).entries, base_offset)
        except (CorruptCheckpointError, OSError):
            begins_epoch = True
    return Expected(base_offset, is_active, begins_epoch)


class SegmentPiece(NamedTuple):
    """A segment of a partition, and how large its log was when the partition was cut."""

    directory: str
    expected: Expected
    size_bytes: int

    def look(self, files: Files) -> SegmentLook | None:
        """Look through it; None if it cannot be done because it is gone."""
        try:
            return look_at(files, self.directory, self.expected)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class CutPartition:
    """A partition as it was when it was cut."""

    expected: PartitionExpectation
    listing: Mapping[str, FileStatus]
    pieces: tuple[SegmentPiece, ...]

    @classmethod
    def of(cls, files: Files, expected: PartitionExpectation) -> Self | None:
        """The partition in its pieces; None if it cannot be listed, which is for a look at the whole to tell."""
        try:
            listing = listed(files, expected.directory)
        except OSError:
            return None
        names = [name for text in listing if (name := parse_name(text)) is not None]
        bases = sorted(name.offset for name in names if name.kind is Kind.LOG and name.suffix is FileSuffix.LIVE)
        pieces = [
            SegmentPiece(
                expected.directory,
                _expected_segment(files, expected, base, is_last=base == bases[-1]),
                listing[str(FileName(base, Kind.LOG))].size_bytes,
            )
            for base in bases
        ]
        return cls(expected, listing, tuple(pieces))

    def verdict(self, files: Files, looks: Sequence[SegmentLook | None]) -> PartitionVerdict:
        """What is found in the partition, given the looks at its pieces, in their order."""
        known = {
            piece.expected.base_offset: look for piece, look in zip(self.pieces, looks, strict=True) if look is not None
        }
        if len(known) == len(self.pieces):
            try:
                look = PartitionLook(files, self.expected, self.listing, looks=known, advance=lambda _: None)
                found = PartitionVerdict.of(look)
                if not found.has_damage or listed(files, self.expected.directory) == self.listing:
                    return found
            except (LogChangedError, OSError):
                pass  # a look at the whole finds out what that means
        return check_partition(files, self.expected, advance=lambda _: None)
