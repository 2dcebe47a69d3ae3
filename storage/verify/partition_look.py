"""One look through a partition's directory: every segment in order, and all that lies beside them against the log."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from storage.errors import CorruptMetadataError
from storage.log.epochs import EPOCHS_NAME
from storage.log.partition_metadata import PARTITION_METADATA_NAME, read_topic_id
from storage.segment.names import FileName, Kind
from storage.verify.cluster_metadata_check import check_cluster_metadata
from storage.verify.directory_check import DirectoryCheck
from storage.verify.epoch_check import EpochCheck
from storage.verify.finding import Finding, FindingKind, damage, notice, unreadable
from storage.verify.finding_list import FindingList
from storage.verify.offset_check import OffsetCheck
from storage.verify.producer_check import ProducerCheck
from storage.verify.segment_check import Expected, SegmentCheck, transaction_index_check
from storage.verify.segment_look import SegmentReplay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from storage.files import Files, FileStatus
    from storage.verify.checking import PartitionExpectation
    from storage.verify.segment_look import SegmentLook


class PartitionLook:
    """One look through a directory, segment by segment; `listing` is what is in it.

    `looks` are those that were taken at its segments by themselves, by their base offsets; without, this looks at each.
    Once `run` has returned, `findings` are what was found, with paths relative to the directory.
    """

    def __init__(
        self,
        files: Files,
        expected: PartitionExpectation,
        listing: Mapping[str, FileStatus],
        *,
        looks: Mapping[int, SegmentLook] | None = None,
        advance: Callable[[int], None],
    ) -> None:
        self.topic_id: UUID | None = None
        self.batches = self.size_bytes = 0
        self._files = files
        self._expected = expected
        self._looks = looks
        self._advance = advance
        self._findings = FindingList()
        self._listing = listing
        self._names = DirectoryCheck(listing, self._findings, is_cluster_metadata=expected.is_cluster_metadata)
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

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._names.bases)

    @property
    def findings(self) -> list[Finding]:
        """What was found."""
        return self._findings.all()

    def run(self) -> None:
        """Look."""
        bases = self._names.bases
        self._names.report()
        last: SegmentCheck | SegmentReplay | None = None
        for base_offset in bases:
            last = self._look_at(base_offset, is_last=base_offset == bases[-1])
        end_offset = 0 if last is None else max(last.claimed_offset, self._offsets.next_offset)
        self._producers.finish(end_offset)
        self._offsets.report()
        self._check_snapshots()
        self._check_reached(last, end_offset)
        if self._expected.is_cluster_metadata:
            directory, start_offset = self._expected.directory, bases[0] if bases else 0
            check_cluster_metadata(
                self._files, directory, self._listing.keys(), self._findings, start_offset=start_offset
            )
        self.topic_id = self._topic_id(is_used=self.batches > 0)

    def _look_at(self, base_offset: int, *, is_last: bool) -> SegmentCheck | SegmentReplay:
        with ExitStack() as opened:
            is_active = is_last and not self._expected.is_clean
            begins_epoch = is_active and self._epochs.may_begin_at(base_offset)
            segment = self._segment(Expected(base_offset, is_active, begins_epoch), opened)
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
            self.batches += segment.batches
            self.size_bytes += segment.size_bytes
        return segment

    def _segment(self, expected: Expected, opened: ExitStack) -> SegmentCheck | SegmentReplay:
        files, directory, findings = self._files, self._expected.directory, self._findings
        transactions = transaction_index_check(files, directory, expected, findings)
        if self._looks is not None:
            return SegmentReplay(
                files, directory, self._looks[expected.base_offset], findings, transactions=transactions
            )
        return SegmentCheck(
            files, directory, expected, findings, transactions=transactions, opened=opened, advance=self._advance
        )

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

    def _check_reached(self, last: SegmentCheck | SegmentReplay | None, end_offset: int) -> None:
        """Report it if other files know of more than the log has."""
        reached, outdated = self._expected.reached, self._expected.outdated
        again = self._expected.again
        if again is not None and any(offset > end_offset for offset in reached.values()):
            # A log that was truncated since has lower checkpoints now, and what is appended raises them again.
            now = again(self._files)
            reached = {name: min(offset, now.reached.get(name, 0)) for name, offset in reached.items()}
            outdated = now.outdated
        reached = dict(reached)
        if self._names.snapshots:
            newest = self._names.snapshots[-1]
            reached[str(FileName(newest, Kind.SNAPSHOT))] = newest
        reached[EPOCHS_NAME] = self._epochs.last_start_offset
        beyond = {name: offset for name, offset in reached.items() if offset > end_offset}
        if beyond and (last is None or last.is_readable):
            words = ", ".join(f"{name} has {offset}" for name, offset in beyond.items())
            name = "" if last is None else last.name
            reason = f"the log ends at offset {end_offset}, and {words}"
            if beyond.keys() <= outdated:
                reason += "; that is older, so a leader may have made this replica truncate its log since"
                self._findings.add(notice(FindingKind.LOST_TAIL, name, reason))
                return
            position = 0 if last is None else last.position
            self._findings.add(damage(FindingKind.LOST_TAIL, name, reason, position=position, offset=end_offset))

    def _topic_id(self, *, is_used: bool) -> UUID | None:
        try:
            topic_id = read_topic_id(self._files.directory(self._expected.directory))
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
