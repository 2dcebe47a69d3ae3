"""Offsets and leader epochs from batch to batch and from segment to segment, in the order of the log.

Within a segment `LogCheck` reports offsets that do not ascend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptCheckpointError
from storage.log.epochs import EPOCHS_NAME, LeaderEpochs, may_begin_at
from storage.offset_text import offsets_text
from storage.record.layout import NO_LEADER_EPOCH
from storage.verify.at_start import passed_over
from storage.verify.finding import Finding, FindingKind, damage, notice, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log.epoch_entries import EpochStart
    from storage.record.reading import Batch
    from storage.verify.batch_check import CheckedBatch
    from storage.verify.context import PartitionContext


class OffsetCheck:
    """The check that no offset comes twice and none is missing; `next_offset` is the one after the highest.

    A leader leaves no gap, so a gap is damage unless the log was compacted: its topic's settings or the cleaner's
    checkpoint say so, a batch that has lost records, or a segment that has replaced another. A cleaner writes its
    checkpoint only once it has gone through the whole log.
    """

    def __init__(self, context: PartitionContext, *, has_replaced: bool) -> None:
        self.next_offset = 0
        self._findings = context.findings
        self._is_compacted = context.expected.is_compacted or has_replaced
        self._gaps: list[Finding] = []
        self._name = ""
        self._is_lost = True  # the next batch need not continue where the last one ended

    def begin(self, base_offset: int, name: str) -> None:
        """Begin the next segment, whose log has this name."""
        self._name = name
        if base_offset < self.next_offset:
            self._findings.add(
                damage(
                    FindingKind.OFFSETS,
                    name,
                    f"the segment begins at {base_offset}, where {self.next_offset} or more is due",
                    position=0,
                    offset=base_offset,
                )
            )
        self._note_gap(base_offset, 0)
        self.next_offset = max(self.next_offset, base_offset)
        self._is_lost = False

    def add(self, checked: CheckedBatch) -> None:
        """Check the next sound batch."""
        if checked.first_offset != self.next_offset:
            self._note_gap(checked.first_offset, checked.batch.position)
        self._is_lost = False
        if not checked.is_gapless:
            self._is_compacted = True
        last_offset = checked.batch.last_offset
        if last_offset >= self.next_offset:
            self.next_offset = last_offset + 1

    def lose(self) -> None:
        """Note that offsets after the last batch are lost."""
        self._is_lost = True

    def report(self) -> None:
        """Report the gaps, unless the log was compacted."""
        if not self._is_compacted:
            for gap in self._gaps:
                self._findings.add(gap)

    def _note_gap(self, offset: int, position: int) -> None:
        if offset > self.next_offset and not self._is_lost and not self._is_compacted:
            self._gaps.append(
                damage(
                    FindingKind.OFFSET_GAP,
                    self._name,
                    f"the log lacks {offsets_text(self.next_offset, offset)}, and nothing shows that it was compacted",
                    position=position,
                    offset=self.next_offset,
                    last_good_offset=self.next_offset - 1,
                    next_good_offset=offset,
                )
            )


class EpochCheck:
    """The check of `leader-epoch-checkpoint`: each batch has the leader epoch that it gives for the batch's offset.

    Batches before the first entry have its epoch or an older one, whose entry was removed with the log's beginning.
    Batches that contradict the checkpoint in the same way are reported once, at the first.
    """

    def __init__(self, context: PartitionContext) -> None:
        self._findings = context.findings
        self._start_offset = context.expected.start_offset
        self._entries: Sequence[EpochStart] = ()
        self._is_usable = True
        self._passed = 0  # entries whose offsets have passed
        self._reported: tuple[int, int | None] | None = None
        try:
            epochs = LeaderEpochs.load(context.directory)
            self._entries = epochs.entries
            if epochs.contradicted:
                reason = "its epochs and offsets do not ascend"
                self._findings.add(passed_over(notice(FindingKind.EPOCH_CHECKPOINT, EPOCHS_NAME, reason)))
        except CorruptCheckpointError as error:
            self._is_usable = False
            self._findings.add(damage(FindingKind.EPOCH_CHECKPOINT, EPOCHS_NAME, error.reason))
        except OSError as error:
            self._is_usable = False
            self._findings.add(unreadable(EPOCHS_NAME, error))

    @property
    def last_start_offset(self) -> int:
        """The start offset of the last epoch, which the log must reach; 0 if there is none."""
        return self._entries[-1].offset if self._entries else 0

    def may_begin_at(self, offset: int) -> bool:
        """Return True if an epoch after the first may begin at the offset: the checkpoint has it, or is unusable."""
        return not self._is_usable or may_begin_at(self._entries, offset)

    def add(self, batch: Batch, name: str) -> None:
        """Check the next batch, of the log file of that name."""
        if not self._is_usable or batch.leader_epoch == NO_LEADER_EPOCH:
            return
        if batch.last_offset < self._start_offset:
            return  # the entries of deleted batches may be removed before the batches are
        offset, epoch = batch.base_offset, batch.leader_epoch
        while self._passed < len(self._entries) and self._entries[self._passed].offset <= offset:
            self._passed += 1
        in_force = self._entries[self._passed - 1].epoch if self._passed else None
        if epoch == in_force:
            return
        if in_force is None and self._entries and 0 <= epoch <= self._entries[0].epoch:
            return
        if self._reported != (epoch, in_force):
            self._reported = (epoch, in_force)
            known = "knows none there" if in_force is None else f"has {in_force} there"
            self._findings.add(
                damage(
                    FindingKind.LEADER_EPOCH,
                    name,
                    f"the batch has leader epoch {epoch}, and {EPOCHS_NAME} {known}",
                    position=batch.position,
                    offset=offset,
                )
            )
