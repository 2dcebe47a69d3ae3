"""The withdrawal of a commit that cannot be completed, as far as no other records follow it.

No reader of kafkafs has seen any of it. Only a broker that was started in between may have shown it to its consumers
and appended after it; then it stays where it is. Truncating logs is left to `commits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from storage.commit.staged_file import StagedFile, find_staged
from storage.errors import StagingError
from storage.record.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from storage.commit.ledger import OffsetRange
    from storage.files import Directory
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition


class Withdrawal(NamedTuple):
    """The offsets, the end excluded, that a commit has in a partition; if it `is_kept`, others have records there."""

    partition: Partition
    first_offset: int
    end_offset: int
    is_kept: bool


@dataclass(frozen=True, slots=True)
class StagedBatches:
    """The readable batches that staged files have for a partition, and whether those are all of them."""

    checksums: frozenset[int]
    are_complete: bool

    @classmethod
    def read(cls, directories: Sequence[Directory], names: Collection[str], partition: Partition) -> StagedBatches:
        """Read the partition's batches of the staged files with these names."""
        checksums: set[int] = set()
        are_complete = True
        for name in names:
            try:
                staged = StagedFile(*find_staged(directories, name))
                checksums.update(batch.crc for batch in staged.batches(partition))
            except StagingError:
                are_complete = False
        return cls(frozenset(checksums), are_complete)

    def may_have(self, batch: object) -> bool:
        """Return True if a batch in the log may be one of them: the unreadable ones had no producer's id either."""
        if not isinstance(batch, RecordBatch):
            return False
        return batch.crc in self.checksums or (not self.are_complete and batch.producer_id < 0)


def withdrawal_of(
    partition: Partition, offset_range: OffsetRange, view: LogView, staged: StagedBatches
) -> Withdrawal | None:
    """Return the part of a commit that is in a partition's log, None if there is none."""
    first_offset = max(offset_range.first_offset, view.start_offset)
    if view.end_offset <= first_offset:
        return None
    is_kept = (
        first_offset > offset_range.first_offset
        or view.end_offset > offset_range.end_offset
        or not all(staged.may_have(batch) for batch in view.batches(first_offset))
    )
    return Withdrawal(partition, first_offset, min(view.end_offset, offset_range.end_offset), is_kept)
