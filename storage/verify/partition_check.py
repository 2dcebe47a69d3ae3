"""One check of a partition's directory: every segment in order, and the other files against the log."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from storage.errors import CorruptMetadataError
from storage.ids import CLUSTER_METADATA_ID, format_id
from storage.log.epochs import EPOCHS_NAME
from storage.log.partition_metadata import PARTITION_METADATA_NAME, read_topic_id
from storage.segment.names import FileName, Kind
from storage.verify.at_start import not_starting, stray_without_id
from storage.verify.cluster_metadata_check import check_cluster_metadata
from storage.verify.context import SegmentExpectation
from storage.verify.directory_check import DirectoryCheck
from storage.verify.finding import Finding, FindingKind, damage, notice, unreadable
from storage.verify.order_check import EpochCheck, OffsetCheck
from storage.verify.producer_check import ProducerCheck
from storage.verify.segment_check import SegmentCheck
from storage.verify.segment_result import SegmentReplay
from storage.verify.txn_index_check import TransactionIndexCheck

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from storage.files import FileStatus
    from storage.verify.context import PartitionContext
    from storage.verify.segment_result import SegmentResult


class PartitionCheck:
    """The check of a directory with this listing.

    `results` are those of its segments, by base offset, if they were verified by themselves. `findings` are complete
    once `run` has returned; their paths are relative to the directory.
    """

    def __init__(
        self,
        context: PartitionContext,
        listing: Mapping[str, FileStatus],
        *,
        results: Mapping[int, SegmentResult] | None = None,
    ) -> None:
        self.topic_id: UUID | None = None
        self.batches = self.size_bytes = 0
        self._context = context
        self._expected = context.expected
        self._findings = context.findings
        self._results = results
        self._names = DirectoryCheck(context, listing)
        self._epochs = EpochCheck(context)
        self._producers = ProducerCheck(context, self._names.snapshots, start_offset=self._names.start_offset)
        self._offsets = OffsetCheck(context, has_replaced=self._names.has_replaced)

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._names.bases)

    @property
    def findings(self) -> list[Finding]:
        """The findings."""
        return self._findings.all()

    def run(self) -> None:
        """Check everything in the directory."""
        bases = self._names.bases
        self._names.report()
        last: SegmentCheck | SegmentReplay | None = None
        for base_offset in bases:
            last = self._check_segment(base_offset, is_last=base_offset == bases[-1])
        end_offset = 0 if last is None else max(last.claimed_offset, self._offsets.next_offset)
        self._producers.finish(end_offset)
        self._offsets.report()
        self._check_snapshots()
        if last is None or last.is_readable:
            self._check_reached("" if last is None else last.name, 0 if last is None else last.position, end_offset)
        if self._expected.is_cluster_metadata:
            check_cluster_metadata(self._context, self._names.texts, start_offset=self._names.start_offset)
        self.topic_id = self._topic_id(is_used=self.batches > 0)

    def _check_segment(self, base_offset: int, *, is_last: bool) -> SegmentCheck | SegmentReplay:
        with ExitStack() as opened:
            is_active = is_last and not self._expected.is_clean
            begins_epoch = is_active and self._epochs.may_begin_at(base_offset)
            segment = self._segment(SegmentExpectation(base_offset, is_active, begins_epoch), opened)
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

    def _segment(self, expected: SegmentExpectation, opened: ExitStack) -> SegmentCheck | SegmentReplay:
        transactions = TransactionIndexCheck.opened(self._context, expected)
        if self._results is not None:
            return SegmentReplay(self._context, self._results[expected.base_offset], transactions=transactions)
        return SegmentCheck(self._context, expected, transactions=transactions, opened=opened)

    def _lose(self) -> None:
        """Tell the checks that bytes which do not decode have passed."""
        self._offsets.lose()
        self._producers.lose()

    def _check_snapshots(self) -> None:
        """Report a missing producer snapshot.

        A writer makes one at the base of each new segment and at the end of a log that it closes, and removes older
        ones. A broker does not read a properly closed log for its producers, so without a snapshot it forgets them. A
        log that starts at its end needs none.
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
                    f"the log has producers, and there is no snapshot of them at or after {offset}",
                    offset=offset,
                )
            )

    def _check_reached(self, name: str, position: int, end_offset: int) -> None:
        """Report a log that ends there and before an offset that other files have."""
        reached, outdated = self._expected.reached, self._expected.outdated
        is_beyond = any(offset > end_offset for offset in reached.values())
        if is_beyond and (now := self._expected.standing_now()) is not None:
            # If the log was truncated meanwhile its checkpoints are lower now, and appends raise them again.
            reached = {name: min(offset, now.reached.get(name, 0)) for name, offset in reached.items()}
            outdated = now.outdated
        reached = dict(reached)
        if self._names.snapshots:
            newest = self._names.snapshots[-1]
            reached[str(FileName(newest, Kind.SNAPSHOT))] = newest
        reached[EPOCHS_NAME] = self._epochs.last_start_offset
        beyond = {name: offset for name, offset in reached.items() if offset > end_offset}
        if beyond:
            words = ", ".join(f"{file} has {offset}" for file, offset in beyond.items())
            reason = f"the log ends at offset {end_offset}, and {words}"
            if beyond.keys() <= outdated:
                reason += "; that is older, so a leader may have made this replica truncate its log since"
                self._findings.add(notice(FindingKind.LOST_TAIL, name, reason))
                return
            self._findings.add(damage(FindingKind.LOST_TAIL, name, reason, position=position, offset=end_offset))

    def _topic_id(self, *, is_used: bool) -> UUID | None:
        try:
            topic_id = read_topic_id(self._context.directory)
        except CorruptMetadataError as error:
            self._findings.add(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, error.reason))
            return None
        except OSError as error:
            self._findings.add(unreadable(PARTITION_METADATA_NAME, error))
            return None
        if topic_id is None and is_used and self._expected.has_topic_id:
            reason = "the file is missing, so that a broker takes the log for one of no topic"
            finding = damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason)
            self._findings.add(stray_without_id(finding))
        if topic_id not in (None, CLUSTER_METADATA_ID) and self._expected.is_cluster_metadata:
            own, due = format_id(topic_id), format_id(CLUSTER_METADATA_ID)
            reason = f"the topic id is {own}, and that of a cluster's metadata is always {due}"
            self._findings.add(not_starting(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason)))
        return topic_id
