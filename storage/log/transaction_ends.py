"""Finding how the transaction of one batch ended, from the log that holds the batch.

Below the last stable offset the transaction indexes decide. From there on the producers' states do and, unless they
show the transaction open, the next marker of the batch's producer. Where damage hides the answer, it is unknown.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.errors import MemoryBudgetError, StorageError
from storage.log.aborted_batches import AbortedBatches
from storage.log.producers.state import marker_of

if TYPE_CHECKING:
    from storage.log.producers.producers import ProducerStates
    from storage.log.view import LogView
    from storage.record.reading import Batch


class TransactionEnd(StrEnum):
    """The end of a transaction, if it has ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"  # the index or the batches that would tell are damaged


def transaction_end(batch: Batch, view: LogView, producers: ProducerStates) -> TransactionEnd:
    """Return how the transaction of this batch ended. The batch is one of the view.

    `producers` are those of the same log, no older than the view. Raises `FileNotFoundError` if segments were removed
    since the view was made: ask a newer view.
    """
    try:
        if AbortedBatches(view.aborted(batch.base_offset, batch.last_offset + 1)).has(batch):
            return TransactionEnd.ABORTED
        if batch.last_offset < view.last_stable_offset:
            return TransactionEnd.COMMITTED
        if _is_open(batch, view, producers):
            return TransactionEnd.OPEN
        return _by_marker(batch, view)
    except MemoryBudgetError:
        raise
    except StorageError:
        return TransactionEnd.UNKNOWN


def _is_open(batch: Batch, view: LogView, producers: ProducerStates) -> bool:
    """True if the producers, known to the end of the view, have an open transaction that holds the batch."""
    if producers.end_offset < view.end_offset:
        return False
    for state in producers.states():
        if state.producer_id == batch.producer_id:
            return state.transaction_offset is not None and state.transaction_offset <= batch.last_offset
    return False


def _by_marker(batch: Batch, view: LogView) -> TransactionEnd:
    """Return the end that the producer's next marker gives. Without a marker the transaction is open."""
    for later in view.batches(batch.last_offset + 1):
        if later.is_control and later.producer_id == batch.producer_id:
            later.check_crc()
            marker = marker_of(later)
            if marker is not None:
                return TransactionEnd.COMMITTED if marker.committed else TransactionEnd.ABORTED
    return TransactionEnd.OPEN
