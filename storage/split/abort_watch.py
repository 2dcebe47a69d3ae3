"""Notices records of an aborted transaction that a transaction index lacks.

No checksum covers the index, and a lost entry contradicts nothing. But the abort marker is in the log: a reader that
comes to one, and was about to give records of its producer, knows that the index is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptIndexError
from storage.record.control import EndTransactionMarker, decode_control
from storage.segment.names import FileName, Kind

if TYPE_CHECKING:
    from storage.record.batch import RecordBatch
    from storage.record.reading import Batch
    from storage.split.splits import Split


class AbortWatch:
    """Watches the batches of a split in order: the wanted ones of transactions, and the markers."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._wanted: dict[int, int] = {}  # the first offset by producer, since that one's last marker

    def want(self, batch: Batch) -> None:
        """Note a batch whose records are to be given, if it does not end before the split begins."""
        if batch.is_transactional and batch.last_offset >= self._split.start_offset:
            self._wanted.setdefault(batch.producer_id, batch.base_offset)

    def pass_marker(self, batch: RecordBatch) -> None:
        """Raise `CorruptIndexError` if a control batch aborts what was noted."""
        first_offset = self._wanted.pop(batch.producer_id, None) if batch.is_transactional else None
        if first_offset is None:
            return
        batch.check_crc()
        for record in batch.records():
            marker = decode_control(record.key, record.value)
            if isinstance(marker, EndTransactionMarker) and not marker.committed:
                raise CorruptIndexError(
                    f"the transaction of producer {batch.producer_id}, which has records at {first_offset} and is "
                    f"aborted at {batch.base_offset}, has no entry for them",
                    path=self._split.place.directory / str(FileName(self._split.base_offset, Kind.TRANSACTION_INDEX)),
                    offset=batch.base_offset,
                )
