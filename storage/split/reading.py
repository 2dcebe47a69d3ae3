"""The records of splits as Arrow record batches.

Every record of a split is given once, in the order of the log, as long as the log has it. `storage.record.columns` has
the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log.aborted_batches import AbortedBatches
from storage.record.batch import RecordBatch
from storage.record.columns import DEFAULT_COLUMNS, read_columns
from storage.split.abort_watch import AbortWatch
from storage.split.walk import SplitPass, SplitWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from storage.clock import Clock
    from storage.files import Files, ReadableFile
    from storage.record.reading import Batch
    from storage.split.splits import OnLoss, Split
    from storage.split.walk import OnDamage


class SplitReader(SplitWalk["pa.RecordBatch"]):
    """Reads any number of splits, one at a time."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        on_loss: OnLoss,
        on_damage: OnDamage | None = None,
    ) -> None:
        super().__init__(files, clock, on_loss=on_loss, on_damage=on_damage)
        self._columns = columns

    def _pass(self, file: ReadableFile, split: Split) -> _ColumnPass:
        return _ColumnPass(file, split, self._columns, self._on_damage)


class _ColumnPass(SplitPass["pa.RecordBatch"]):
    """One pass through a split's file."""

    def __init__(self, file: ReadableFile, split: Split, columns: Sequence[str], on_damage: OnDamage | None) -> None:
        super().__init__(file, split, on_damage)
        self._columns = columns
        self._aborted = AbortedBatches(split.aborted) if split.aborted else None
        self._watch = AbortWatch(split) if split.is_committed else None

    def _check(self, batch: Batch, due_offset: int) -> None:
        if self._on_damage is not None or self._aborted is not None:
            batch.check_crc()  # the header decides if the batch is left out
        self._check_order(batch, due_offset)

    def _ends_before(self, batch: Batch) -> bool:
        return batch.starts_at_or_after(self._split.end_offset)

    def _wants(self, batch: Batch) -> bool:
        if self._watch is None:
            return True
        if isinstance(batch, RecordBatch) and batch.is_control:
            self._watch.pass_marker(batch)
        elif self._aborted is not None and self._aborted.has(batch):
            return False
        else:
            self._watch.want(batch)
        return True

    def _of_run(self, run: Sequence[Batch], origin: int) -> Iterator[pa.RecordBatch]:
        first, last = run[0], run[-1]
        return read_columns(
            first.buffer.view(0, len(first.buffer)),
            start=first.position - origin,
            end=last.position + last.size_bytes - origin,
            origin=origin,
            columns=self._columns,
            first_offset=self._split.start_offset,
            end_offset=self._split.end_offset,
        )
