"""The batches of splits as they lie in the log, whatever their offsets are, and when their records were written.

Every sound batch is given once, in the order of its place: control batches, batches without records and those of
aborted transactions among them. Only those are left out that end before the split begins within its segment. What
offsets mean that do not follow on one another is left to others.
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
"""What is given of the records; there are none of control batches."""


class BatchRun(NamedTuple):
    """Batches that lie one behind the other, the place of the file that they are in, and the times of their records."""

    log_name: str
    batches: Sequence[Batch]
    times: Sequence[pa.RecordBatch]


class BatchReader(SplitWalk[BatchRun]):
    """Reads any number of splits, one at a time; a batch whose records do not decode is damage too."""

    def _pass(self, file: ReadableFile, split: Split) -> _Reading:
        return _Reading(file, split, self._on_damage)


class _Reading(SplitPass[BatchRun]):
    """One reading of a split's file."""

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
                times.append(part)  # noqa: PERF402 -- those before an error are wanted
        except CorruptBatchError as error:
            sound = [batch for batch in run if error.position is not None and batch.position < error.position]
            if sound:
                yield BatchRun(self._split.log_name, sound, times)
                self._go_behind(sound[-1])
            raise
        yield BatchRun(self._split.log_name, run, times)
