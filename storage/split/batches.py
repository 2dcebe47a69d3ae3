"""The batches of splits in the order of the log, not of their offsets, and the timestamps of their records.

Every sound batch is given once: control batches, empty ones and those of aborted transactions too. Only batches that
end before the split begins within its segment are left out. The caller judges offsets that are out of order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptBatchError
from storage.record.columns import read_columns
from storage.split.walk import SplitPass, SplitWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.split.splits import Split
    from storage.split.walk import OnDamage

TIME_COLUMNS: Final = ("offset", "timestamp", "timestampType", "position")
"""The columns of the records; control batches have none."""


class BatchRun(NamedTuple):
    """Consecutive batches of one log file, and the timestamps of their records."""

    log_name: str
    batches: Sequence[Batch]
    times: Sequence[pa.RecordBatch]


class BatchReader(SplitWalk[BatchRun]):
    """Reads any number of splits, one at a time. A batch whose records do not decode is damage too."""

    def _pass(self, file: ReadableFile, split: Split) -> _BatchPass:
        return _BatchPass(file, split, self._on_damage)


class _BatchPass(SplitPass[BatchRun]):
    """One pass through a split's file."""

    def __init__(self, file: ReadableFile, split: Split, on_damage: OnDamage | None) -> None:
        super().__init__(file, split, on_damage)
        self._has_begun = False

    def _check(self, batch: Batch, _due_offset: int) -> None:
        batch.check_crc()

    def _ends_before(self, _batch: Batch) -> bool:
        return False

    def _wants(self, batch: Batch) -> bool:
        split = self._split
        if not self._has_begun:
            self._has_begun = not split.base_offset <= batch.last_offset < split.start_offset
        return self._has_begun

    def _of_run(self, run: Sequence[Batch], origin: int) -> Iterator[BatchRun]:
        first, last = run[0], run[-1]
        times: list[pa.RecordBatch] = []
        columns = read_columns(
            first.buffer.view(0, len(first.buffer)),
            start=first.position - origin,
            end=last.position + last.size_bytes - origin,
            origin=origin,
            columns=TIME_COLUMNS,
            check_crc=False,
        )
        try:
            for part in columns:
                times.append(part)  # noqa: PERF402 -- those before an error are kept
        except CorruptBatchError as error:
            sound = [batch for batch in run if error.position is not None and batch.position < error.position]
            if sound:
                yield BatchRun(self._split.log_name, sound, times)
                self._go_behind(sound[-1])
            raise
        yield BatchRun(self._split.log_name, run, times)
