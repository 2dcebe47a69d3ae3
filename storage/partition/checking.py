"""One partition's directory looked through, every byte of it, without changing one.

A broker may be writing meanwhile. Each file is looked at up to where it ended when its turn came; and if the directory
was not the same at the end as at the beginning, damage counts only if a second look finds the very same.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptMetadataError
from storage.partition.directory_check import DirectoryCheck
from storage.partition.epoch_check import EpochCheck
from storage.partition.epochs import EPOCHS_NAME
from storage.partition.metadata import PARTITION_METADATA_NAME, read_topic_id
from storage.partition.offset_check import OffsetCheck
from storage.partition.producer_check import ProducerCheck
from storage.segment.finding import Finding, FindingKind, Severity, damage, unreadable
from storage.segment.finding_list import FindingList
from storage.segment.names import FileName, Kind
from storage.segment.segment_check import Expected, SegmentCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from storage.files import Files, FileStatus

_LOOKS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpectation:
    """What is known of a partition before anybody looks.

    The log begins at `start_offset` or later: what lies before is there, and nobody relies on it. `reached` are offsets
    that the log has reached by the word of some file, which is the key. A partition that `is_compacted` may lack
    offsets, and so may any that shows signs of it.
    """

    directory: str
    is_clean: bool = False
    has_topic_id: bool = False
    is_compacted: bool = False
    start_offset: int = 0
    reached: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """What was found in a partition, with paths relative to its directory, and how much was looked at."""

    findings: Sequence[Finding] = ()
    topic_id: UUID | None = None
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0


def check_partition(
    files: Files, expected: PartitionExpectation, *, advance: Callable[[int], None]
) -> PartitionVerdict:
    """Look through a partition; `advance` is told how many bytes of logs were looked at since the last time.

    A directory that is gone by the time is not looked at, and nothing is wrong with it.
    """
    verdict: PartitionVerdict | None = None
    for _ in range(_LOOKS_MAX):
        try:
            before = _listing(files, expected.directory)
            found = _Look(files, expected, before, advance).verdict()
            is_still = _listing(files, expected.directory) == before
        except FileNotFoundError:
            if files.status(expected.directory) is None:
                return PartitionVerdict()
            continue  # a file went while it was looked at
        except OSError as error:
            return PartitionVerdict(findings=[unreadable("", error)])
        again = None if verdict is None else {finding.identity for finding in verdict.findings}
        if again is not None:
            confirmed = [finding for finding in found.findings if finding.identity in again]
            found = _with(found, confirmed)
        if is_still or again is not None or not _has_damage(found):
            return found
        verdict = found
    # It was never there long enough to be looked at twice.
    return PartitionVerdict() if verdict is None else _with(verdict, ())


def _with(verdict: PartitionVerdict, findings: Sequence[Finding]) -> PartitionVerdict:
    return PartitionVerdict(
        findings=findings,
        topic_id=verdict.topic_id,
        segments=verdict.segments,
        batches=verdict.batches,
        size_bytes=verdict.size_bytes,
    )


def _has_damage(verdict: PartitionVerdict) -> bool:
    return any(finding.severity is Severity.DAMAGE for finding in verdict.findings)


def _listing(files: Files, directory: str) -> dict[str, FileStatus]:
    listing = {}
    for name in files.names(directory):
        status = files.status(Path(directory, name))
        if status is not None and not status.is_directory:
            listing[name] = status
    return listing


class _Look:
    """One look through a directory, segment by segment."""

    def __init__(
        self,
        files: Files,
        expected: PartitionExpectation,
        listing: Mapping[str, FileStatus],
        advance: Callable[[int], None],
    ) -> None:
        self._files = files
        self._expected = expected
        self._advance = advance
        self._findings = FindingList()
        self._names = DirectoryCheck(listing, self._findings)
        bases = self._names.bases
        self._epochs = EpochCheck(files, expected.directory, self._findings, expected.start_offset)
        self._producers = ProducerCheck(
            files,
            expected.directory,
            self._findings,
            snapshots=self._names.snapshots,
            start_offset=bases[0] if bases else 0,
        )
        self._offsets = OffsetCheck(self._findings, is_compacted=expected.is_compacted)
        self._batches = self._size_bytes = 0

    def verdict(self) -> PartitionVerdict:
        """Look, and say what was found."""
        bases = self._names.bases
        self._names.report()
        last: SegmentCheck | None = None
        for base_offset in bases:
            last = self._look_at(base_offset, is_last=base_offset == bases[-1])
        end_offset = 0 if last is None else max(last.claimed_offset, self._offsets.next_offset)
        self._producers.finish(end_offset)
        self._offsets.report()
        self._check_snapshots()
        self._check_reached(last, end_offset)
        topic_id = self._topic_id(is_used=self._batches > 0)
        return PartitionVerdict(
            findings=self._findings.all(),
            topic_id=topic_id,
            segments=len(bases),
            batches=self._batches,
            size_bytes=self._size_bytes,
        )

    def _look_at(self, base_offset: int, *, is_last: bool) -> SegmentCheck:
        is_active = is_last and not self._expected.is_clean
        with ExitStack() as opened:
            segment = SegmentCheck(
                self._files,
                self._expected.directory,
                Expected(base_offset, is_active),
                self._findings,
                opened=opened,
                advance=self._advance,
            )
            self._offsets.begin(base_offset, segment.name)
            losses = 0
            for checked in segment:
                if segment.losses > losses:
                    losses = segment.losses
                    self._lose()
                self._offsets.add(checked)
                self._epochs.add(checked.batch, segment.name)
                aborted = self._producers.add(checked)
                if segment.transactions is not None:
                    segment.transactions.add(checked, aborted, is_known=self._producers.is_known)
            if segment.losses > losses:
                self._lose()
            self._batches += segment.batches
            self._size_bytes += segment.size_bytes
        return segment

    def _lose(self) -> None:
        """Something that does not decode has passed."""
        self._offsets.lose()
        self._producers.lose()

    def _check_snapshots(self) -> None:
        """Report it if there is no snapshot where whoever wrote the log has made one.

        With each segment that is begun there is one at its base, and at the end of a log that is closed; older ones
        go. Without any the log is all that tells of its producers, and after a proper closing nobody reads it for that.
        Of a log that starts at its end there is nothing to tell.
        """
        bases = self._names.bases
        if self._expected.start_offset >= self._offsets.next_offset:
            return
        newest = max(self._names.snapshots, default=-1)
        is_due = len(bases) > 1 or (self._expected.is_clean and not self._names.snapshots)
        if self._producers.has_producers and is_due and newest < bases[-1]:
            offset = bases[-1] if len(bases) > 1 else self._offsets.next_offset
            name = str(FileName(offset, Kind.SNAPSHOT))
            self._findings.add(
                damage(
                    FindingKind.MISSING_SNAPSHOT,
                    name,
                    f"the log has producers, and there is no snapshot of them at or behind {offset}",
                    offset=offset,
                )
            )

    def _check_reached(self, last: SegmentCheck | None, end_offset: int) -> None:
        """Report it if other files know of more than the log has."""
        reached = dict(self._expected.reached)
        if self._names.snapshots:
            newest = self._names.snapshots[-1]
            reached[str(FileName(newest, Kind.SNAPSHOT))] = newest
        reached[EPOCHS_NAME] = self._epochs.last_start_offset
        beyond = {name: offset for name, offset in reached.items() if offset > end_offset}
        if beyond and (last is None or last.is_readable):
            words = ", ".join(f"{name} has {offset}" for name, offset in beyond.items())
            self._findings.add(
                damage(
                    FindingKind.LOST_TAIL,
                    "" if last is None else last.name,
                    f"the log ends at offset {end_offset}, and {words}",
                    position=0 if last is None else last.position,
                    offset=end_offset,
                )
            )

    def _topic_id(self, *, is_used: bool) -> UUID | None:
        try:
            topic_id = read_topic_id(self._files, self._expected.directory)
        except CorruptMetadataError as error:
            self._findings.add(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, error.reason))
            return None
        except OSError as error:
            self._findings.add(unreadable(PARTITION_METADATA_NAME, error))
            return None
        if topic_id is None and is_used and self._expected.has_topic_id:
            reason = "the file is missing, so that a broker takes the log for one of no topic"
            self._findings.add(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
        return topic_id
