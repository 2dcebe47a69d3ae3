"""The entries of a segment's transaction index compared with the abort markers in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from storage.errors import CorruptIndexError
from storage.segment.index.entries import TRANSACTION_ENTRY
from storage.segment.index.txn import TransactionIndex, TransactionIndexReader
from storage.segment.names import FileName, Kind
from storage.verify.finding import Finding, FindingKind, Severity, damage, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction
    from storage.verify.batch_check import CheckedBatch
    from storage.verify.context import PartitionContext, SegmentExpectation

_ENTRY_BYTES: Final = TRANSACTION_ENTRY.size
_ENTRIES_A_STEP: Final = 10_000  # between two signs of life


class TransactionIndexCheck:
    """The check of one transaction index; the log's batches are passed in once, in order.

    Every entry belongs to an abort marker, and where all transactions are known every abort marker has its entry. A
    cleaner drops markers and may leave their entries, so an entry without its marker is not judged. It also drops the
    entry of a marker that is all that is left of its transaction, which a snapshot may still know. The broker of an
    active segment may have died before it wrote the entry of the very last marker.
    """

    def __init__(self, context: PartitionContext, expected: SegmentExpectation, name: str) -> None:
        self._findings = context.findings
        self._advance = context.advance
        self._name = name
        self._is_active = expected.is_active
        self._lost: list[tuple[int, int | None]] = []
        self._without_entry: AbortedTransaction | None = None
        self._last_offset = expected.base_offset - 1
        status = context.directory.status(name)
        if status is not None and status.size_bytes % _ENTRY_BYTES:
            reason = f"the file has {status.size_bytes} bytes, not a multiple of {_ENTRY_BYTES}"
            self._findings.add(damage(FindingKind.INDEX_SIZE, name, reason))
        self._waiting = self._entries(TransactionIndexReader.open(context.directory, name, expected.base_offset))
        self._next = next(self._waiting, None)

    @classmethod
    def opened(cls, context: PartitionContext, expected: SegmentExpectation) -> Self | None:
        """Return the check of a segment's index; None, with a finding, if it cannot be read."""
        name = str(FileName(expected.base_offset, Kind.TRANSACTION_INDEX))
        try:
            return cls(context, expected, name)
        except OSError as error:
            context.findings.add(unreadable(name, error))
            return None

    def add(self, checked: CheckedBatch, aborted: AbortedTransaction | None, *, is_known: bool) -> None:
        """Compare with the next batch and the transaction that it aborts; `is_known` if the log shows all before it."""
        self._settle(Severity.DAMAGE)
        while self._next is not None and self._next.last_offset < checked.first_offset:
            self._step()
        if self._next is not None and self._next.last_offset <= checked.batch.last_offset:
            entry = self._next
            self._step()
            self._judge(entry, checked, aborted, is_known=is_known)
        elif aborted is not None and is_known and not _is_all_that_is_left(checked.batch):
            self._without_entry = aborted

    def skip(self, first_lost: int, next_good: int | None) -> None:
        """Note offsets that do not decode."""
        self._lost.append((first_lost, next_good))

    def finish(self) -> None:
        """Report the entries after the end of the log."""
        self._settle(Severity.NOTICE if self._is_active else Severity.DAMAGE)
        while self._next is not None:
            self._report(self._next, "comes after the last batch of the log")
            self._step()

    def _entries(self, index: TransactionIndex) -> Iterator[AbortedTransaction]:
        try:
            for number, entry in enumerate(index):
                if number % _ENTRIES_A_STEP == 0:
                    self._advance(0)
                if not self._last_offset < entry.last_offset or not entry.first_offset <= entry.last_offset:
                    self._report(entry, "is not after its first record and the entry before it")
                else:
                    self._last_offset = entry.last_offset
                    yield entry
        except CorruptIndexError as error:
            kind = FindingKind.TRANSACTION_INDEX_ENTRY
            self._findings.add(damage(kind, self._name, error.reason, position=error.position))

    def _judge(
        self, entry: AbortedTransaction, checked: CheckedBatch, aborted: AbortedTransaction | None, *, is_known: bool
    ) -> None:
        batch = checked.batch
        is_its_own = (batch.producer_id, batch.base_offset) == (entry.producer_id, entry.last_offset)
        if not batch.is_control or not is_its_own:
            self._report(entry, "is no marker of that producer")
        elif is_known and entry != aborted:
            known = "that aborts nothing" if aborted is None else f"of a transaction that the log shows as {aborted}"
            self._report(entry, f"is a marker {known}")

    def _step(self) -> None:
        self._next = next(self._waiting, None)

    def _settle(self, severity: Severity) -> None:
        """Report the last marker if it has no entry."""
        if self._without_entry is not None:
            offset = self._without_entry.last_offset
            self._findings.add(
                Finding(
                    severity=severity,
                    kind=FindingKind.TRANSACTION_INDEX_ENTRY,
                    path=self._name,
                    reason=f"the transaction of producer {self._without_entry.producer_id} that is aborted at {offset} "
                    "has no entry",
                    offset=offset,
                )
            )
            self._without_entry = None

    def _report(self, entry: AbortedTransaction, reason: str) -> None:
        offset = entry.last_offset
        if not any(start <= offset and (end is None or offset < end) for start, end in self._lost):
            self._findings.add(
                damage(
                    FindingKind.TRANSACTION_INDEX_ENTRY,
                    self._name,
                    f"{entry}: its marker {reason}",
                    offset=offset,
                )
            )


def _is_all_that_is_left(batch: Batch) -> bool:
    """Return True if a cleaner has set the delete horizon, as it does once a transaction has nothing but its marker."""
    return batch.delete_horizon_ms is not None
