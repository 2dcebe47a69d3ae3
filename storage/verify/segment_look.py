"""A segment looked through by itself, and gone through once more by whoever looks at the segments around it.

Most of the work on a log is its checksums, its records and its two indexes, for which nothing has to be known but the
segment; so that is done anywhere, and what comes of it is small. The rest needs the log's batches in order, and of each
hardly more than its header: where the sound ones are is known by then, so they are read again and not checked again.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptBatchError, LogChangedError
from storage.record.batch import RecordBatch
from storage.segment.log_file import LogScan
from storage.verify.batch_check import CheckedBatch, check_batch
from storage.verify.finding_list import FindingList
from storage.verify.segment_check import SegmentCheck

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from storage.files import Files, ReadableFile
    from storage.record.reading import Batch
    from storage.verify.segment_check import Expected
    from storage.verify.txn_index_check import TransactionIndexCheck

    Lost: TypeAlias = tuple[int, int | None]

_CHANGED: Final = "what was looked through is no longer there"


class SoundRun(NamedTuple):
    """Sound batches one behind the other from the position `start` up to `end`, and what is lost right before them."""

    start: int
    end: int
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLook:
    """What was found in a segment's log and the indexes of its offsets and times, and where its sound batches are.

    `lost` is what is lost behind the last run; the other names are those of `SegmentCheck`.
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


def look_at(files: Files, directory: str | os.PathLike[str], expected: Expected) -> SegmentLook:
    """Look through a segment but for its transaction index; a log that is not there is a `FileNotFoundError`."""
    findings = FindingList()
    runs: list[SoundRun] = []
    with ExitStack() as opened:
        check = SegmentCheck(
            files, directory, expected, findings, transactions=None, opened=opened, advance=lambda _: None
        )
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
        return SegmentLook(
            name=check.name,
            findings=findings,
            runs=runs,
            lost=tuple(check.lost[known:]),
            is_readable=check.is_readable,
            batches=check.batches,
            size_bytes=check.size_bytes,
            position=check.position,
            claimed_offset=check.claimed_offset,
        )


class SegmentReplay:
    """A segment that was looked through, as `SegmentCheck` would have it: iterate over it once, for the sound batches.

    What was found is among the findings once the iteration begins. Raises a `LogChangedError` if the log is no longer
    what it was.
    """

    def __init__(
        self,
        files: Files,
        directory: str | os.PathLike[str],
        look: SegmentLook,
        findings: FindingList,
        *,
        transactions: TransactionIndexCheck | None,
    ) -> None:
        self.name = look.name
        self.is_readable = True
        self.losses = 0
        self.batches, self.size_bytes = look.batches, look.size_bytes
        self.position, self.claimed_offset = look.position, look.claimed_offset
        self.transactions = transactions
        self._files = files
        self._path = Path(directory, look.name)
        self._look = look
        self._findings = findings

    def __iter__(self) -> Iterator[CheckedBatch]:
        self._findings.extend(self._look.findings)
        if self._look.runs:
            with self._files.open_reading(self._path) as file:
                for run in self._look.runs:
                    self._lose(run.lost)
                    yield from self._sound(file, run)
        self._lose(self._look.lost)
        self.is_readable = self._look.is_readable
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
            raise LogChangedError(_CHANGED, path=self._path, position=error.position) from None
        if scan.position != run.end:
            raise LogChangedError(_CHANGED, path=self._path, position=scan.position)

    def _lose(self, lost: Sequence[Lost]) -> None:
        self.losses += len(lost)
        if self.transactions is not None:
            for first_lost, next_good in lost:
                self.transactions.skip(first_lost, next_good)


def _as_checked(batch: Batch) -> CheckedBatch:
    """What checking a batch gives that is known to be sound: its header alone says so in the present format."""
    if not isinstance(batch, RecordBatch):
        return check_batch(batch)
    return CheckedBatch(batch, batch.base_offset, 0 < batch.count == batch.last_offset_delta + 1)
