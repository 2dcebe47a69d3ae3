"""The batches of aborted transactions, which a reader with `Isolation.COMMITTED` does not see.

The log lists the aborted transactions. `AbortedBatches` says of each batch, in any order, whether it belongs to one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction


class AbortedBatches:
    """The batches of the given aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # by producer, ascending; one's transactions never overlap
        for transaction in sorted(aborted, key=lambda each: each.first_offset):
            self._ranges.setdefault(transaction.producer_id, []).append(
                (transaction.first_offset, transaction.last_offset)
            )

    def has(self, batch: Batch) -> bool:
        """True if the batch belongs to one of the transactions."""
        if not batch.is_transactional:
            return False
        # A cleaner may have removed a transaction's first records, but never moves a record.
        ranges = self._ranges.get(batch.producer_id, [])
        last_begun = bisect_right(ranges, batch.last_offset, key=lambda each: each[0]) - 1
        return last_begun >= 0 and ranges[last_begun][1] >= batch.base_offset
