"""Records of splits counted from given offsets on, by the headers of their batches.

Every data record is counted once, aborted ones too, as long as the log has it. Checksums are verified. Records are
decoded only where a batch holds one of the offsets, or is of an old version and compressed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.split.walk import SplitPass, SplitWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.clock import Clock
    from storage.files import Files, ReadableFile
    from storage.record.reading import Batch
    from storage.split.splits import OnLoss, Split


@dataclass(slots=True)
class Stretch:
    """The number of records from the offset `start` up to the next given one, and the first one's timestamp."""

    start: int
    records: int = 0
    first_timestamp: int | None = None

    def add(self, records: int, first_timestamp: int | None) -> None:
        """Add records that continue those before."""
        if not self.records:
            self.first_timestamp = first_timestamp
        self.records += records


class RecordCounter(SplitWalk[Stretch]):
    """Reads any number of splits, one at a time, and counts their records from each offset up to the next.

    A stretch may come in several parts, in the order of the log. The offsets ascend, and a split's records are at or
    after the first of them.
    """

    def __init__(self, files: Files, clock: Clock, offsets: Sequence[int], *, on_loss: OnLoss) -> None:
        super().__init__(files, clock, on_loss=on_loss)
        self._offsets = offsets

    def _pass(self, file: ReadableFile, split: Split) -> _CountingPass:
        return _CountingPass(file, split, self._offsets)


class _CountingPass(SplitPass[Stretch]):
    """One pass through a split's file."""

    def __init__(self, file: ReadableFile, split: Split, offsets: Sequence[int]) -> None:
        super().__init__(file, split, None)
        self._offsets = offsets

    def _check(self, batch: Batch, due_offset: int) -> None:
        batch.check_crc()
        self._check_order(batch, due_offset)

    def _ends_before(self, batch: Batch) -> bool:
        return batch.starts_at_or_after(self._split.end_offset)

    def _wants(self, batch: Batch) -> bool:
        return not batch.is_control

    def _of_run(self, run: Sequence[Batch], _origin: int) -> Iterator[Stretch]:
        stretch: Stretch | None = None
        for batch in run:
            number = self._number(batch.last_offset)
            if batch.count is not None and self._has_whole(batch, number):
                if batch.count:
                    if stretch is None or stretch.start != self._offsets[number]:
                        if stretch is not None:
                            yield stretch
                        stretch = Stretch(self._offsets[number])
                    stretch.add(batch.count, -1 if stretch.records else next(batch.records()).timestamp)
                continue
            if stretch is not None:
                yield stretch
                stretch = None
            yield from self._one_by_one(batch)
        if stretch is not None:
            yield stretch

    def _has_whole(self, batch: Batch, number: int) -> bool:
        """Return True if all of the batch's records are the split's, and of the one stretch."""
        split = self._split
        start = max(split.start_offset, self._offsets[number])
        return start <= batch.base_offset and batch.last_offset < split.end_offset

    def _one_by_one(self, batch: Batch) -> Iterator[Stretch]:
        for record in batch.records():
            if self._split.start_offset <= record.offset < self._split.end_offset:
                yield Stretch(self._offsets[self._number(record.offset)], 1, record.timestamp)

    def _number(self, offset: int) -> int:
        """Return the number of the last given offset that is not above this one."""
        return max(bisect_right(self._offsets, offset) - 1, 0)
