"""The end of one batch's transaction, as the log that holds the batch tells it.

Below the last stable offset the transaction indexes decide; from there on what is known of producers and, where that
does not say that the transaction is open, the next marker of the batch's producer. Damage is never taken for an answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.errors import StorageError
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
    UNKNOWN = "unknown"  # what would say it is damaged


def transaction_end(batch: Batch, view: LogView, producers: ProducerStates) -> TransactionEnd:
    """Return how the transaction ended that this batch of the view belongs to.

    `producers` are those of the same log, not from before the view. Raises `FileNotFoundError` if segments went away
    since the view was made; a newer view then answers.
    """
    try:
        if AbortedBatches(view.aborted(batch.base_offset, batch.last_offset + 1)).has(batch):
            return TransactionEnd.ABORTED
        if batch.last_offset < view.last_stable_offset:
            return TransactionEnd.COMMITTED
        if _is_open(batch, view, producers):
            return TransactionEnd.OPEN
        return _by_marker(batch, view)
    except StorageError:
        return TransactionEnd.UNKNOWN


def _is_open(batch: Batch, view: LogView, producers: ProducerStates) -> bool:
    """True if the producer's open transaction, known of all of the view, has the batch."""
    if producers.end_offset < view.end_offset:
        return False
    for state in producers.states():
        if state.producer_id == batch.producer_id:
            return state.transaction_offset is not None and state.transaction_offset <= batch.last_offset
    return False


def _by_marker(batch: Batch, view: LogView) -> TransactionEnd:
    """Return what the producer's next marker says. Without one the transaction is open."""
    for later in view.batches(batch.last_offset + 1):
        if later.is_control and later.producer_id == batch.producer_id:
            later.check_crc()
            marker = marker_of(later)
            if marker is not None:
                return TransactionEnd.COMMITTED if marker.committed else TransactionEnd.ABORTED
    return TransactionEnd.OPEN
