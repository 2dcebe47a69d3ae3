"""The record at an offset, found by reading its batch and no more than lies around it.

A split is planned and opened for a range of records; for one record that costs more than reading it. A lookup answers
only where everything it meets is in order. Everything else, damage above all, is left to the reading of a range, which
knows what to say of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError
from storage.log import AbortedBatches, Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log import LogView
    from storage.record import Batch, Record

_LEGACY_BELOW: Final = 2


def records_from(view: LogView, offsets: range, isolation: Isolation) -> Sequence[Record]:
    """Return the visible records of a range that are in the batch with its first offset.

    None are returned where that batch has none, where no batch holds the offset, and where the batches around it
    contradict each other or are damaged: read the range to know which.
    """
    try:
        batch = _confirmed(view, offsets.start)
        if batch is None or batch.base_offset > offsets.start or not _is_visible(view, batch, isolation):
            return ()
        return [record for record in batch.checked_records() if offsets.start <= record.offset < offsets.stop]
    except CorruptBatchError:
        return ()


def _confirmed(view: LogView, offset: int) -> Batch | None:
    """Return the first batch of the offset's segment that ends at or after the offset, once its neighbours confirm it.

    No checksum covers where a batch begins, so its offsets must follow those of the batch before it, and the next
    batch's must follow its own.
    """
    part = next(view.slices(offset), None)
    if part is None:
        return None
    due_offset = part.segment.base_offset
    found: Batch | None = None
    for batch in part.segment.batches_near(offset, part.end):
        if not due_offset <= batch.base_offset <= batch.last_offset < part.end_offset:
            return None
        if found is not None:
            return found
        due_offset = batch.last_offset + 1
        if batch.last_offset >= offset:
            found = batch
        if found is not None or batch.magic < _LEGACY_BELOW:
            batch.check_crc()
    return found


def _is_visible(view: LogView, batch: Batch, isolation: Isolation) -> bool:
    if batch.is_control:
        return False
    if isolation is Isolation.UNCOMMITTED or not batch.is_transactional:
        return True
    return not AbortedBatches(view.aborted(batch.base_offset, batch.last_offset + 1)).has(batch)
