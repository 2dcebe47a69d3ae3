"""The entries of a segment's transaction index against the abort markers in its log, which passes by once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import CorruptIndexError
from storage.segment.index.txn import AbortedTransaction, TransactionIndex
from storage.verify.finding import Finding, FindingKind, Severity, damage

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from storage.files import Files
    from storage.record.reading import Batch
    from storage.verify.batch_check import CheckedBatch
    from storage.verify.finding_list import FindingList


_ENTRY_BYTES: Final = 34


class TransactionIndexCheck:
    """Every entry belongs to an abort marker, and where all transactions are known every such marker has its entry.

    A cleaner drops markers and may leave their entries, so one whose marker is gone is not judged; and it drops the
    entry of a marker that is all that is left of its transaction, of which a snapshot may still tell. If the segment
    `is_active` its broker may have died before it wrote the entry of the very last marker.
    """

    def __init__(
        self,
        files: Files,
        path: str | os.PathLike[str],
        base_offset: int,
        findings: FindingList,
        *,
        name: str,
        is_active: bool,
    ) -> None:
        self._findings = findings
        self._name = name
        self._is_active = is_active
        self._lost: list[tuple[int, int | None]] = []
        self._without_entry: AbortedTransaction | None = None
        self._last_offset = base_offset - 1
        status = files.status(path)
        if status is not None and status.size_bytes % _ENTRY_BYTES:
            reason = f"the file has {status.size_bytes} bytes, not a multiple of {_ENTRY_BYTES}"
            findings.add(damage(FindingKind.INDEX_SIZE, name, reason))
        self._waiting = self._entries(TransactionIndex.open_reading(files, path, base_offset))
        self._next = next(self._waiting, None)

    def add(self, checked: CheckedBatch, aborted: AbortedTransaction | None, *, is_known: bool) -> None:
        """The next batch, and the transaction that it aborts; `is_known` says that all before it were seen."""
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
        """Offsets that do not decode."""
        self._lost.append((first_lost, next_good))

    def finish(self) -> None:
        """The log has ended."""
        self._settle(Severity.NOTICE if self._is_active else Severity.DAMAGE)
        while self._next is not None:
            self._report(self._next, "lies behind the last batch of the log")
            self._step()

    def _entries(self, index: TransactionIndex) -> Iterator[AbortedTransaction]:
        try:
            for entry in index:
                if not self._last_offset < entry.last_offset or not entry.first_offset <= entry.last_offset:
                    self._report(entry, "is not above the one before it and behind its first record")
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
        """Report the marker that has no entry."""
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
    """Whether a cleaner has said when a marker may go, which it does once its transaction has nothing else."""
    return batch.delete_horizon_ms is not None
