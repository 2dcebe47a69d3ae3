"""One segment checked: its log from end to end, and its indexes against it, in one pass and bounded memory.

A segment to which nothing more is appended has trimmed files and a final entry in its time index. The last one of a
directory whose broker runs or was killed has neither: its indexes end in unused slots, and its log may be preallocated.

Zeros after the last batch of such a segment are the rest of a preallocated log if one of its indexes ends in unused
slots as well: a broker preallocates all files of a segment together and trims them together, so where both indexes are
trimmed the zeros have another cause. The topic's settings are no better evidence: they may have changed since.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from storage.record.batch import RecordBatch
from storage.segment.names import FileName, Kind
from storage.segment.truncation import EarliestTruncation
from storage.verify.finding import FindingKind, missing_index, notice, unreadable
from storage.verify.log_check import LogCheck
from storage.verify.offset_index_check import OffsetIndexCheck
from storage.verify.time_index_check import TimeIndexCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack

    from storage.verify.batch_check import CheckedBatch
    from storage.verify.context import PartitionContext, SegmentExpectation
    from storage.verify.txn_index_check import TransactionIndexCheck

Check = TypeVar("Check", OffsetIndexCheck, TimeIndexCheck)


class SegmentCheck:
    """The check of one segment; iterate over it once, for the sound batches. The caller adds them to `transactions`.

    `lost` are the ranges of offsets that do not decode, up to the current batch, or up to the end. Findings have the
    names of the files. At the end `next_offset` is above the highest sound batch, and `claimed_offset` is where the log
    would end if damaged headers were right; unless it `is_readable`, neither is known. The files are closed with
    `opened`. Raises `FileNotFoundError` if the log is gone.
    """

    def __init__(
        self,
        context: PartitionContext,
        expected: SegmentExpectation,
        *,
        transactions: TransactionIndexCheck | None,
        opened: ExitStack,
    ) -> None:
        self._directory = context.directory
        self._expected = expected
        self._findings = context.findings
        self._opened = opened
        self.is_readable = True
        self.batches = 0
        self._is_before_time_indexes = True  # until a batch comes that no such broker wrote
        self._truncation = EarliestTruncation(expected.base_offset, begins_epoch=expected.begins_epoch)
        # Indexes first: a broker appends to the log before it appends to an index.
        self._offsets = self._index(Kind.OFFSET_INDEX, OffsetIndexCheck)
        self._times = self._index(Kind.TIME_INDEX, TimeIndexCheck)
        self.transactions = transactions
        self.name = self._name(Kind.LOG)
        self._log = self._log_check(context.advance)

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the log that were read."""
        return 0 if self._log is None else self._log.end

    @property
    def position(self) -> int:
        """The position after the last sound batch."""
        return 0 if self._log is None else self._log.position

    @property
    def next_offset(self) -> int:
        """The offset above the highest sound batch."""
        return self._expected.base_offset if self._log is None else self._log.next_offset

    @property
    def claimed_offset(self) -> int:
        """The end offset of the log if damaged headers are right."""
        return self._expected.base_offset if self._log is None else self._log.claimed_offset

    @property
    def lost(self) -> Sequence[tuple[int, int | None]]:
        """The ranges, as `LogCheck` has them."""
        return () if self._log is None else self._log.lost

    @property
    def losses(self) -> int:
        """The number of these ranges; a log that could not be read counts as one more."""
        return len(self.lost) + (not self.is_readable)

    def __iter__(self) -> Iterator[CheckedBatch]:
        if self._log is None:
            return
        log, offsets, times = self._log, self._offsets, self._times
        ranges = lost = 0
        try:
            for checked in log:
                batch = checked.batch
                if ranges < len(log.damaged_ranges) or lost < len(log.lost):
                    ranges, lost = self._skip(log, ranges, lost)
                self._truncation.add(batch, checked.first_offset)
                if offsets is not None:
                    offsets.add(batch.position, checked.first_offset, batch.last_offset)
                if times is not None:
                    times.add(batch)
                if isinstance(batch, RecordBatch):
                    self._is_before_time_indexes = False
                self.batches += 1
                yield checked
            self._skip(log, ranges, lost)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._refuse(error)
            return
        self._finish()

    def _skip(self, log: LogCheck, ranges: int, lost: int) -> tuple[int, int]:
        """Tell the indexes which bytes and offsets do not decode."""
        if lost < len(log.lost):
            self._truncation.lose()
        for start, end in log.damaged_ranges[ranges:]:
            if self._offsets is not None:
                self._offsets.skip(start, end)
        for first_lost, next_good in log.lost[lost:]:
            if self._times is not None:
                self._times.skip(first_lost, next_good)
            if self.transactions is not None:
                self.transactions.skip(first_lost, next_good)
        return len(log.damaged_ranges), len(log.lost)

    def _finish(self) -> None:
        self._truncation.end(self.next_offset, self.position)
        if self._offsets is not None:
            self._offsets.finish()
        if self._times is not None:
            self._times.finish(is_closed=not self._expected.is_active, is_before_indexes=self._is_before_time_indexes)
        if self.transactions is not None:
            self.transactions.finish()
        if self.batches == 0:
            return
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            # Brokers make the indexes of a segment when they first append to it.
            name = self._name(kind)
            if self._directory.status(name) is not None:
                continue
            if kind is Kind.TIME_INDEX and self._is_before_time_indexes:
                reason = "the segment was written before Kafka 0.10.1, which made no such index"
                self._findings.add(notice(FindingKind.MISSING_INDEX, name, reason))
            else:
                self._findings.add(missing_index(name))

    def _index(self, kind: Kind, make: type[Check]) -> Check | None:
        name = self._name(kind)
        try:
            file = self._opened.enter_context(self._directory.open_reading(name))
            return make(
                file,
                self._expected.base_offset,
                self._findings,
                name=name,
                truncation=self._truncation if self._expected.is_active else None,
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            self._findings.add(unreadable(name, error))
            return None

    def _log_check(self, advance: Callable[[int], None]) -> LogCheck | None:
        try:
            file = self._opened.enter_context(self._directory.open_reading(self.name))
        except FileNotFoundError:
            raise
        except OSError as error:
            self._refuse(error)
            return None
        is_untrimmed = any(index is not None and index.is_untrimmed for index in (self._offsets, self._times))
        return LogCheck(
            file,
            self._expected.base_offset,
            self._findings,
            name=self.name,
            end=file.size_bytes(),
            may_end_in_zeros=self._expected.is_active and is_untrimmed,
            advance=advance,
        )

    def _refuse(self, error: OSError) -> None:
        self.is_readable = False
        name = self.name if error.filename is None else Path(error.filename).name
        self._findings.add(unreadable(name, error))

    def _name(self, kind: Kind) -> str:
        return str(FileName(self._expected.base_offset, kind))
