"""The log beside an index, read where the index points to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptBatchError, CorruptIndexError, StorageError
from storage.record import NO_TIMESTAMP
from storage.segment import EarliestTruncation, LogScan

if TYPE_CHECKING:
    from storage.files import ReadableFile
    from storage.record import Batch

_WINDOW_BYTES: Final = 16 * 1024  # two batches of the usual size, and little to read in vain


class _Scanned(NamedTuple):
    """From position `start` up to `end` no batch reaches `offset`."""

    start: int
    end: int
    offset: int


class LogBeside:
    """The batches of a log by their positions.

    A position that the log does not have, or at which no whole batch begins, is the index's fault, a
    `CorruptIndexError` without a path. Errors with a path are the log's own; a batch that needs more than
    `limit_bytes`, stored or decompressed, is one of them.
    """

    def __init__(self, file: ReadableFile, *, limit_bytes: int) -> None:
        self._file = file
        self._limit_bytes = limit_bytes
        self._scanned = _Scanned(0, 0, 0)

    def batch_at(self, position: int) -> Batch:
        """Return the batch that begins at the position."""
        for batch in self._scan(position):
            return batch
        raise CorruptIndexError(
            f"the log of {self._file.size_bytes()} bytes has no whole batch at its position {position}"
        )

    def batch_reaching(self, offset: int, position: int) -> Batch | None:
        """Return the first batch from the position on that reaches the offset; None if none does.

        What a call has read is not read again by the next one, if that asks for a later offset.
        """
        known = self._scanned
        is_known = known.start <= position <= known.end and known.offset <= offset
        scan = self._scan(known.end if is_known else position)
        found = next((batch for batch in scan if batch.last_offset >= offset), None)
        end = scan.position if found is None else found.position
        self._scanned = _Scanned(known.start if is_known else position, end, offset)
        return found

    def truncation(self, base_offset: int, *, begins_epoch: bool) -> EarliestTruncation:
        """Scan the log to its end, and return where this segment may have been truncated."""
        truncation = EarliestTruncation(base_offset, begins_epoch=begins_epoch)
        next_offset = base_offset
        scan = self._scan(0)
        try:
            for batch in scan:
                truncation.add(batch, next_offset)
                next_offset = batch.last_offset + 1
        except CorruptBatchError:
            truncation.lose()
        truncation.end(next_offset, scan.position)
        return truncation

    def largest_timestamp(self, batch: Batch) -> int:
        """Return the largest timestamp of all the batch's records; -1 if there is none."""
        try:
            records = batch.records(limit_bytes=self._limit_bytes)
            return max((record.timestamp for record in records), default=NO_TIMESTAMP)
        except StorageError as error:
            raise error.located(path=self._file.path, position=batch.position) from None

    def _scan(self, position: int) -> LogScan:
        size_bytes = self._file.size_bytes()
        if not 0 <= position <= size_bytes:
            raise CorruptIndexError(f"the log of {size_bytes} bytes has no position {position}")
        return LogScan(self._file, start=position, limit_bytes=self._limit_bytes, window_bytes=_WINDOW_BYTES)
