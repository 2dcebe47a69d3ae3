"""A segment verified by itself, and its log read once more in order with the segments around it.

Most of the work on a log is its checksums, records and two indexes, for which only the segment has to be known; any
process can do that, and its result is small. The rest needs the log's batches in order, and hardly more of each than
its header: their positions are known by then, so they are read again and not checked again.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptBatchError, LogChangedError
from storage.record.batch import RecordBatch
from storage.segment.scan import LogScan
from storage.verify.batch_check import CheckedBatch, check_batch
from storage.verify.segment_check import SegmentCheck

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.verify.context import PartitionContext, SegmentExpectation
    from storage.verify.finding import FindingList
    from storage.verify.txn_index_check import TransactionIndexCheck

    Lost: TypeAlias = tuple[int, int | None]

_CHANGED: Final = "the segment changed while it was verified"


class SoundRun(NamedTuple):
    """Consecutive sound batches from the position `start` up to `end`, and the offsets lost right before them."""

    start: int
    end: int
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentResult:
    """The findings of a segment's log, offset index and time index, and the positions of its sound batches.

    `lost` are the offsets lost after the last run; the other names are those of `SegmentCheck`.
    """

    name: str
    findings: FindingList
    runs: Sequence[SoundRun]
    lost: tuple[Lost, ...]
    is_readable: bool
    batches: int
    size_bytes: int
    position: int
    claimed_offset: int


def verify_segment(context: PartitionContext, expected: SegmentExpectation) -> SegmentResult:
    """Verify a segment except for its transaction index. Raises `FileNotFoundError` if its log is gone."""
    runs: list[SoundRun] = []
    with ExitStack() as opened:
        check = SegmentCheck(context, expected, transactions=None, opened=opened)
        start = end = known = 0
        lost: tuple[Lost, ...] = ()
        for checked in check:
            batch = checked.batch
            if batch.position != end or len(check.lost) > known:
                if end > start:
                    runs.append(SoundRun(start, end, lost))
                start, lost, known = batch.position, tuple(check.lost[known:]), len(check.lost)
            end = batch.position + batch.size_bytes
        if end > start:
            runs.append(SoundRun(start, end, lost))
        return SegmentResult(
            name=check.name,
            findings=context.findings,
            runs=runs,
            lost=tuple(check.lost[known:]),
            is_readable=check.is_readable,
            batches=check.batches,
            size_bytes=check.size_bytes,
            position=check.position,
            claimed_offset=check.claimed_offset,
        )


class SegmentReplay:
    """A verified segment, read again with the interface of `SegmentCheck`: iterate once, for the sound batches.

    The iteration adds the segment's findings to the context's. Raises a `LogChangedError` if the log has changed.
    """

    def __init__(
        self, context: PartitionContext, result: SegmentResult, *, transactions: TransactionIndexCheck | None
    ) -> None:
        self.name = result.name
        self.is_readable = True
        self.losses = 0
        self.batches, self.size_bytes = result.batches, result.size_bytes
        self.position, self.claimed_offset = result.position, result.claimed_offset
        self.transactions = transactions
        self._context = context
        self._result = result

    def __iter__(self) -> Iterator[CheckedBatch]:
        self._context.findings.extend(self._result.findings)
        if self._result.runs:
            with self._context.directory.open_reading(self.name) as file:
                for run in self._result.runs:
                    self._lose(run.lost)
                    yield from self._sound(file, run)
        self._lose(self._result.lost)
        self.is_readable = self._result.is_readable
        if not self.is_readable:
            self.losses += 1
        elif self.transactions is not None:
            self.transactions.finish()

    def _sound(self, file: ReadableFile, run: SoundRun) -> Iterator[CheckedBatch]:
        scan = LogScan(file, start=run.start, end=run.end)
        try:
            for batch in scan:
                yield _as_checked(batch)
        except CorruptBatchError as error:
            raise LogChangedError(_CHANGED, path=file.path, position=error.position) from None
        if scan.position != run.end:
            raise LogChangedError(_CHANGED, path=file.path, position=scan.position)

    def _lose(self, lost: Sequence[Lost]) -> None:
        self.losses += len(lost)
        if self.transactions is not None:
            for first_lost, next_good in lost:
                self.transactions.skip(first_lost, next_good)


def _as_checked(batch: Batch) -> CheckedBatch:
    """Return the result of `check_batch` for a batch known to be sound; in version 2 its header suffices."""
    if not isinstance(batch, RecordBatch):
        return check_batch(batch)
    return CheckedBatch(batch, batch.base_offset, 0 < batch.count == batch.last_offset_delta + 1)
