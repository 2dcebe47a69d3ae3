"""The withdrawal of a commit that cannot be completed, as far as no other records follow it.

No reader of kafkafs has seen any of it. Only a broker that was started in between may have shown it to its consumers
and appended after it; then it stays where it is. Truncating logs is left to `commits`.
"""

from __future__ import annotations

from contextlib import suppress
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
    """The batches that a commit has for a partition: those that its staged files and its ledger account for."""

    checksums: frozenset[int]

    @classmethod
    def read(
        cls, directories: Sequence[Directory], names: Collection[str], partition: Partition, offset_range: OffsetRange
    ) -> StagedBatches:
        """Read the partition's batches of the staged files with these names, as far as those are readable."""
        checksums = set(offset_range.checksums)
        for name in names:
            with suppress(StagingError):
                staged = StagedFile(*find_staged(directories, name))
                checksums.update(batch.crc for batch in staged.batches(partition))
        return cls(frozenset(checksums))

    def have(self, batch: object) -> bool:
        """Return True if a batch in the log is one of them."""
        return isinstance(batch, RecordBatch) and batch.crc in self.checksums


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
        or not all(staged.have(batch) for batch in view.batches(first_offset))
    )
    return Withdrawal(partition, first_offset, min(view.end_offset, offset_range.end_offset), is_kept)
