"""The batches of aborted transactions, and the markers without batches.

A cleaner passes every batch of a log from its beginning; the state of open transactions goes on from one segment to the
next. The cleaner decides what to do with the batches.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.log.producers.state import marker_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.record.batch import RecordBatch
    from storage.segment.index.entries import AbortedTransaction


class BatchFate(NamedTuple):
    """The fate of a batch by its transaction: if it is needed, and the index entry if it ends an aborted one."""

    is_needed: bool
    aborted: AbortedTransaction | None = None


_NEEDED: Final = BatchFate(is_needed=True)
_NOT_NEEDED: Final = BatchFate(is_needed=False)


class CleanedTransactions:
    """The transactions of a log up to the last batch passed, in order.

    `aborted` are all that were aborted and have batches in the passed part, with or without their markers.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborting: dict[int, AbortedTransaction] = {}  # by producer, those that have begun
        self._observed: set[int] = set()  # producers with some batch of an aborted transaction
        self._committing: set[int] = set()  # producers with some batch of another transaction

    def fate(self, batch: RecordBatch) -> BatchFate:
        """Take in the next batch.

        Data that was aborted is not needed, and a marker is as long as a batch of its transaction is there.
        """
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            transaction = self._coming.popleft()
            self._aborting.setdefault(transaction.producer_id, transaction)
        if batch.is_control:
            return self._fate_of_control(batch)
        if not batch.is_transactional:
            return _NEEDED
        producer_id = batch.producer_id
        if producer_id in self._aborting:
            self._observed.add(producer_id)
            return _NOT_NEEDED
        self._committing.add(producer_id)
        return _NEEDED

    def _fate_of_control(self, batch: RecordBatch) -> BatchFate:
        marker = marker_of(batch)
        if marker is None:
            # It has lost its marker already; control records of other kinds stay.
            return _NOT_NEEDED if batch.count == 0 else _NEEDED
        producer_id = batch.producer_id
        if marker.committed:
            is_needed = producer_id in self._committing
            self._committing.discard(producer_id)
            return _NEEDED if is_needed else _NOT_NEEDED
        transaction = self._aborting.pop(producer_id, None)
        if producer_id not in self._observed:
            return _NOT_NEEDED
        self._observed.discard(producer_id)
        return BatchFate(is_needed=True, aborted=transaction)
