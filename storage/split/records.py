"""The records of splits as consumers see them, decoded a batch at a time.

Every record of a split is given once, in the order of the log, as long as the log has it. No record comes of a batch
whose checksum, frame, offsets or records are wrong: the records before it come first, then a `CorruptBatchError`.
Control records are left out, and so are the records of the transactions that the split says were aborted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from storage.errors import ChecksumError
from storage.log.aborted_batches import AbortedBatches
from storage.record.batch import RecordBatch
from storage.record.kernel.decode import Record
from storage.split.abort_watch import AbortWatch
from storage.split.walk import SplitPass, SplitWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.split.splits import Split

Records: TypeAlias = list[Record]


class RecordReader(SplitWalk[Records]):
    """Reads any number of splits, one at a time: the visible records of each batch that has any, as a list."""

    def _pass(self, file: ReadableFile, split: Split) -> _RecordPass:
        return _RecordPass(file, split)


class _RecordPass(SplitPass[Records]):
    """One reading of a split's file."""

    def __init__(self, file: ReadableFile, split: Split) -> None:
        super().__init__(file, split, None)
        self._aborted = AbortedBatches(split.aborted)
        self._watch = AbortWatch(split) if split.is_committed else None
        self._before: RecordBatch | None = None  # the last batch that ends before the split begins, by its header

    def all(self, window_bytes: int) -> Iterator[Records]:
        """Everything that the split has. Damage that cannot have held any of it is passed over."""
        yield from super().all(window_bytes)
        self._check_before()

    def _check(self, batch: Batch, due_offset: int) -> None:
        if self._is_before(batch):
            self._before = batch
        else:
            if batch.base_offset > self._split.start_offset:
                self._check_before()
            self._before = None
            batch.check_crc()
        self._check_order(batch, due_offset)

    def _is_before(self, batch: Batch) -> TypeGuard[RecordBatch]:
        return isinstance(batch, RecordBatch) and batch.last_offset < self._split.start_offset

    def _check_before(self) -> None:
        """Raise `ChecksumError` if the batch before may have held the split's first records after all."""
        if self._before is not None:
            try:
                self._before.check_crc()
            except ChecksumError as error:
                raise error.located(path=self._file.path) from None

    def _ends_before(self, batch: Batch) -> bool:
        return batch.starts_at_or_after(self._split.end_offset)

    def _wants(self, batch: Batch) -> bool:
        if self._is_before(batch):
            return False
        if isinstance(batch, RecordBatch) and batch.is_control:
            if self._watch is not None:
                self._watch.pass_marker(batch)
            return False
        if self._aborted.has(batch):
            return False
        if self._watch is not None:
            self._watch.want(batch)
        return True

    def _of_run(self, run: Sequence[Batch], _origin: int) -> Iterator[Records]:
        start, end = self._split.start_offset, self._split.end_offset
        for batch in run:
            records = list(batch.checked_records())
            if records and not start <= records[0].offset <= records[-1].offset < end:
                records = [record for record in records if start <= record.offset < end]
            if records:
                yield records
