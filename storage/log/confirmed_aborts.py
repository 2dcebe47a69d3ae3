"""The aborted transactions of a segment's index, confirmed by the log's batches.

No checksum covers an entry. One that was damaged would let a reader see aborted records, so each is compared once with
what the log has at its two offsets. A cleaner may have removed that; then nothing contradicts the entry.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, CorruptIndexError
from storage.segment.index.entries import TRANSACTION_ENTRY
from storage.segment.names import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction
    from storage.segment.segment import Segment

    Find = Callable[[int], Batch | None]


def check_aborts(segment: Segment, end_offset: int, find: Find, stable_offset: int) -> None:
    """Raise `CorruptIndexError` for the first entry of a segment's transaction index that the log contradicts.

    The segment ends at `end_offset` in the reader's view, in which `find` returns the first batch that does not end
    below an offset. An entry for a transaction from the view's last stable offset on is newer than the view. Entries
    that were confirmed before are passed over, until the index is unloaded.
    """
    index = segment.transaction_index
    if index.confirmed_count >= index.entries_count:
        return
    before_offset = segment.base_offset - 1
    for slot, transaction in enumerate(index):
        if slot >= index.confirmed_count:
            if transaction.first_offset >= stable_offset and transaction.last_offset >= end_offset:
                return
            reason = _contradiction(transaction, before_offset, end_offset, find)
            if reason is not None:
                raise CorruptIndexError(
                    f"the entry of the transaction of producer {transaction.producer_id} {reason}",
                    path=segment.path(Kind.TRANSACTION_INDEX),
                    position=slot * TRANSACTION_ENTRY.size,
                    offset=transaction.last_offset,
                )
            index.confirmed_count = slot + 1
        before_offset = transaction.last_offset


def _contradiction(transaction: AbortedTransaction, before_offset: int, end_offset: int, find: Find) -> str | None:
    first_offset, last_offset = transaction.first_offset, transaction.last_offset
    if not before_offset < last_offset < end_offset:
        return "has its marker out of order"
    if not 0 <= first_offset <= last_offset or not 0 <= transaction.last_stable_offset <= last_offset + 1:
        return "has offsets that contradict each other"
    marker, first = _batch_with(find, last_offset), _batch_with(find, first_offset)
    if marker is not None and not (marker.is_control and marker.producer_id == transaction.producer_id):
        return f"has no marker at {last_offset}"
    if first is not None and not (
        first.is_transactional
        and not first.is_control
        and first.producer_id == transaction.producer_id
        and first.base_offset == first_offset
    ):
        return f"has no records that begin at {first_offset}"
    return None


def _batch_with(find: Find, offset: int) -> Batch | None:
    """Return the batch that holds the offset; None if the log has it no more, or damage may hide it."""
    with suppress(CorruptBatchError, FileNotFoundError):
        batch = find(offset)
        if batch is not None and batch.base_offset <= offset and batch.crc_matches:
            return batch
    return None
