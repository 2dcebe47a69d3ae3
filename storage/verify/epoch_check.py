"""`leader-epoch-checkpoint` against the epochs in the batches of the log, which passes by once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptCheckpointError
from storage.log.epochs import EPOCHS_NAME, LeaderEpochs, may_begin_at
from storage.record.layout import NO_LEADER_EPOCH
from storage.verify.finding import FindingKind, damage, unreadable

if TYPE_CHECKING:
    import os

    from storage.files import Files
    from storage.log.epochs import EpochStart
    from storage.record.reading import Batch
    from storage.verify.finding_list import FindingList


class EpochCheck:
    """Every batch from the log's start on that has an epoch has the one that was in force at its offset.

    Batches before the first entry are of that epoch or an older one, whose entry went with the log's beginning.
    Batches that contradict the checkpoint in the same way are reported once, at the first.
    """

    def __init__(
        self, files: Files, directory: str | os.PathLike[str], findings: FindingList, start_offset: int
    ) -> None:
        self._findings = findings
        self._start_offset = start_offset
        self._entries: tuple[EpochStart, ...] = ()
        self._is_usable = True
        self._passed = 0  # entries whose offsets have passed
        self._reported: tuple[int, int | None] | None = None
        try:
            self._entries = LeaderEpochs.load(files, directory).entries
        except CorruptCheckpointError as error:
            self._is_usable = False
            findings.add(damage(FindingKind.EPOCH_CHECKPOINT, EPOCHS_NAME, error.reason))
        except OSError as error:
            self._is_usable = False
            findings.add(unreadable(EPOCHS_NAME, error))

    @property
    def last_start_offset(self) -> int:
        """Where the last epoch begins that is known, and so up to where there was a log; 0 if none is."""
        return self._entries[-1].offset if self._entries else 0

    def may_begin_at(self, offset: int) -> bool:
        """Whether a leader after the first one may have begun there; the checkpoint says so, or cannot be read."""
        return not self._is_usable or may_begin_at(self._entries, offset)

    def add(self, batch: Batch, name: str) -> None:
        """The next batch, of the log file of that name."""
        if not self._is_usable or batch.leader_epoch == NO_LEADER_EPOCH:
            return
        if batch.last_offset < self._start_offset:
            return  # the entries of what was deleted may be gone before the batches are
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
