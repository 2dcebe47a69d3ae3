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
from storage.split.walk import SPLIT_WINDOW_BYTES, SplitPass, SplitWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.clock import Clock
    from storage.files import Files, ReadableFile
    from storage.record.reading import Batch
    from storage.split.splits import OnLoss, Split

    RecordsOf: TypeAlias = Callable[[Sequence[Batch]], Iterator[list[Record]]]
    """Gives what is wanted of consecutive batches, in their order: the records of each that has any."""

Records: TypeAlias = list[Record]


def _all_records(run: Sequence[Batch]) -> Iterator[Records]:
    """Yield all records of each batch."""
    return (list(batch.checked_records()) for batch in run)


class RecordReader(SplitWalk[Records]):
    """Reads any number of splits, one at a time: the visible records of each batch that has any, as a list.

    Where `records_of` is given, it chooses the records of visible batches.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        on_loss: OnLoss,
        window_bytes: int = SPLIT_WINDOW_BYTES,
        records_of: RecordsOf | None = None,
    ) -> None:
        super().__init__(files, clock, on_loss=on_loss, window_bytes=window_bytes)
        self._records_of = _all_records if records_of is None else records_of

    def _pass(self, file: ReadableFile, split: Split) -> _RecordPass:
        return _RecordPass(file, split, self._records_of)


class _RecordPass(SplitPass[Records]):
    """One reading of a split's file."""

    def __init__(self, file: ReadableFile, split: Split, records_of: RecordsOf) -> None:
        super().__init__(file, split, None)
        self._records_of = records_of
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
        for found in self._records_of(run):
            is_whole = found and start <= found[0].offset <= found[-1].offset < end
            records = found if is_whole else [record for record in found if start <= record.offset < end]
            if records:
                yield records
