"""The dump of a log: its batches and records in order, as the lines of a form.

`LogDump` reads the log, selects the wanted records, notes where offsets jump, and goes on after damage if it knows
where the next batch begins. A form, `text` or `json_form`, says how a batch, a record or damage looks.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from kafkafs.dump.file_kinds import as_printed
from storage.errors import CorruptBatchError, FramingError, MemoryBudgetError, StorageError
from storage.record import (
    DEFAULT_OUTPUT_LIMIT_BYTES,
    LOG_OVERHEAD_BYTES,
    Codec,
    RecordBatch,
    RecordIterator,
    summarize_records,
)
from storage.segment import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.files import ReadableFile
    from storage.record import Batch, LeasedBuffer, LegacyBatch, LegacyEntry, Record

RUN_LINES: Final = 1024
RUN_BYTES: Final = 1024 * 1024
"""How many bytes of lines are held, and the last line: a small record may have a long one."""
GAPS_KEPT: Final = 100_000

_FRAME: Final = Struct(">qiib")  # offset, length, leader epoch or CRC, magic
_SMALLEST_LENGTH: Final = 14
_LARGEST_MAGIC: Final = 2
_NO_OFFSET: Final = -1


class Form(Protocol):
    """Formats the parts of a dump, as lines without their ends."""

    def heading(self, path: str) -> list[bytes]:
        """Return the lines before the log's first batch."""

    def batch(self, batch: RecordBatch, records: Iterable[Record], *, is_valid: bool) -> Iterator[bytes | LeasedBuffer]:
        """Yield a line for the batch, then one for each record. An error comes after everything that could be shown."""

    def message_set(
        self, batch: LegacyBatch, entries: Iterable[LegacyEntry], *, is_valid: bool
    ) -> Iterator[bytes | LeasedBuffer]:
        """Yield the same for an outer entry of a v0 or v1 message set."""

    def damage(self, error: StorageError) -> bytes:
        """Say what is wrong, and where."""

    def trailing(self, path: str, position: int, size_bytes: int) -> bytes:
        """Say that the log ends with bytes that are no whole batch."""


class Gaps:
    """The places where a record's offset does not follow the one before; if they are many, the last are kept."""

    def __init__(self, path: str) -> None:
        self.total = 0
        self._path = path
        self._kept: deque[tuple[int, int]] = deque(maxlen=GAPS_KEPT)
        self._last = _NO_OFFSET

    def follow(self, offset: int) -> None:
        """Add the next record's offset."""
        last = self._last
        if offset != last + 1 and last != _NO_OFFSET:
            self.total += 1
            self._kept.append((last, offset))
        self._last = offset

    def restart(self) -> None:
        """Forget the last offset: records were skipped."""
        self._last = _NO_OFFSET

    def report(self) -> Iterator[str]:
        """Yield the lines that the real tool prints on standard error, the last gap first; none without a gap."""
        if self.total:
            path = os.path.join(os.getcwd(), self._path)  # noqa: PTH109, PTH118 -- the JVM resolves no `..` either
            yield f"Non-consecutive offsets in {as_printed(path)}"
        for first, second in reversed(self._kept):
            yield f"  {first} is followed by {second}"
        if self.total > len(self._kept):
            yield f"  and {self.total - len(self._kept)} more before these"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which records are wanted: the first offset and time, and those after the last; None leaves a side open.

    A record without a timestamp is in no range of time.
    """

    first_offset: int | None = None
    end_offset: int | None = None
    first_time: int | None = None
    end_time: int | None = None

    @property
    def are_open(self) -> bool:
        """Return True if every record is wanted."""
        return self == _EVERYTHING

    def hold(self, record: Record) -> bool:
        """Return True if the record is wanted."""
        return self._hold_offsets(record.offset, record.offset) and self._hold_times(record.timestamp, record.timestamp)

    def may_hold_records_of(self, batch: Batch, lowest_offset: int) -> bool:
        """Return True if the batch, whose offsets begin at `lowest_offset` or later, can have wanted records."""
        return self._hold_offsets(lowest_offset, batch.last_offset) and self._hold_times(0, batch.max_timestamp)

    def hold_times_of(self, batch: Batch) -> bool:
        """Return True if a time between the first and the largest timestamp of the batch's header is wanted."""
        first, largest = batch.first_timestamp, batch.max_timestamp
        return self._hold_times(largest if first is None else min(first, largest), largest)

    def _hold_offsets(self, lowest: int, highest: int) -> bool:
        if self.first_offset is not None and highest < self.first_offset:
            return False
        return self.end_offset is None or lowest < self.end_offset

    def _hold_times(self, lowest: int, highest: int) -> bool:
        if self.first_time is None and self.end_time is None:
            return True
        return highest >= max(self.first_time or 0, 0) and (self.end_time is None or lowest < self.end_time)


_EVERYTHING: Final = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected part of a log."""

    bounds: Bounds = field(default_factory=Bounds)
    with_records: bool = True
    max_bytes: int | None = None  # of the log, from its beginning


class LogDump:
    """One log's dump; iterate over it once, for runs of lines. From a `start`, where a batch begins, it has no heading.

    After damage the dump goes on if it can: after a batch whose records do not parse, and after one whose header makes
    no sense if a batch begins at the end that it states. No batch may need more than `limit_bytes`, stored or
    decompressed. Errors of the operating system pass through.

    `position` is how far the dump has come in the log, `damaged` whether anything was wrong so far, and `gaps` where
    offsets jumped. `end` is where the log ends if it ends with a whole batch, until something is appended.
    """

    def __init__(
        self,
        file: ReadableFile,
        form: Form,
        selection: Selection,
        *,
        start: int = 0,
        limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    ) -> None:
        self.damaged = False
        self.position = start
        self.end: int | None = None
        self.gaps = Gaps(file.path)
        self._file = file
        self._form = form
        self._selection = selection
        self._bounded = not selection.bounds.are_open
        self._limit_bytes = limit_bytes
        self._lowest_offset = 0  # of what may follow

    def __iter__(self) -> Iterator[list[bytes | LeasedBuffer]]:
        start: int | None = self.position
        if start == 0:
            yield [*self._form.heading(self._file.path)]
        while start is not None:
            scan = LogScan(self._file, start=start, end=self._selection.max_bytes, limit_bytes=self._limit_bytes)
            start = None
            try:
                for batch in scan:
                    yield from self._batch(batch)
            except FramingError as error:
                yield [self._damage(error)]
                start = self._next_batch(scan.position, scan.end)
            else:
                if scan.trailing_bytes and self._selection.max_bytes is None:
                    self.damaged = True
                    yield [self._form.trailing(self._file.path, scan.position, scan.trailing_bytes)]
                else:
                    self.end = scan.position

    def report(self) -> Iterator[str]:
        """Return the lines for standard error at the end of the dump."""
        return self.gaps.report()

    def _batch(self, batch: Batch) -> Iterator[list[bytes | LeasedBuffer]]:
        self.position = batch.position
        if self._bounded and not self._is_wanted(batch):
            self.gaps.restart()
            return
        is_valid = batch.crc_matches
        self.damaged |= not is_valid
        run: list[bytes | LeasedBuffer] = []
        room_bytes = RUN_BYTES
        # Within bounds, a batch is of interest only for its records and for damage.
        is_of_interest = not (self._bounded and self._selection.with_records)
        try:
            for line in self._lines(batch, is_valid=is_valid):
                run.append(line)
                room_bytes -= len(line)
                if len(run) == RUN_LINES or room_bytes <= 0:
                    yield run
                    run = []
                    room_bytes = RUN_BYTES
                    is_of_interest = True
        except MemoryBudgetError:
            raise
        except StorageError as error:
            run.append(self._damage(error.located(position=batch.position)))
            is_of_interest = True
        if run and (is_of_interest or len(run) > 1):
            yield run

    def _is_wanted(self, batch: Batch) -> bool:
        # A wrapper does not tell its first offset, but that comes after the batches before.
        lowest = min(self._lowest_offset, batch.base_offset) if batch.count is None else batch.base_offset
        self._lowest_offset = batch.last_offset + 1
        bounds = self._selection.bounds
        if not bounds.may_hold_records_of(batch, lowest):
            return False
        return self._selection.with_records or bounds.hold_times_of(batch)

    def _lines(self, batch: Batch, *, is_valid: bool) -> Iterator[bytes | LeasedBuffer]:
        if isinstance(batch, RecordBatch):
            return self._form.batch(batch, self._records(batch), is_valid=is_valid)
        return self._form.message_set(batch, self._entries(batch), is_valid=is_valid)

    def _records(self, batch: RecordBatch) -> Iterator[Record]:
        if not self._selection.with_records:
            return
        if batch.codec is Codec.NONE or batch.count == 0:
            records = batch.records()
        else:
            # The real tool reads a compressed batch to its end before it prints the first record, and so prints none
            # of a damaged one: what came out of it may be anything.
            records_data = batch.records_data(limit_bytes=self._limit_bytes)
            try:
                summarize_records(batch, records_data)
            except CorruptBatchError:
                deque(RecordIterator(batch, records_data), maxlen=0)  # which says what is wrong
                raise
            records = RecordIterator(batch, records_data)
        follow = self.gaps.follow
        hold = self._selection.bounds.hold if self._bounded else None
        for record in records:
            follow(record.offset)
            if hold is None or hold(record):
                yield record

    def _entries(self, batch: LegacyBatch) -> Iterator[LegacyEntry]:
        if not self._selection.with_records:
            return
        for entry in batch.entries(limit_bytes=self._limit_bytes):
            self.gaps.follow(entry.record.offset)
            self.damaged |= not entry.crc_matches
            if not self._bounded or self._selection.bounds.hold(entry.record):
                yield entry

    def _damage(self, error: StorageError) -> bytes:
        self.damaged = True
        return self._form.damage(error.located(path=self._file.path))

    def _next_batch(self, position: int, end: int) -> int | None:
        """Return where the batch at `position` ends, if the log ends or another batch begins there."""
        after = self._end_of_frame(position, end)
        if after is None or after == end or self._end_of_frame(after, end, known_magic=True) is not None:
            return after
        return None

    def _end_of_frame(self, position: int, end: int, *, known_magic: bool = False) -> int | None:
        header = self._file.read_at(position, _FRAME.size)
        if len(header) < _FRAME.size:
            return None
        _, length, _, magic = _FRAME.unpack(header)
        after = position + LOG_OVERHEAD_BYTES + int(length)
        if length < _SMALLEST_LENGTH or after > end or (known_magic and not 0 <= magic <= _LARGEST_MAGIC):
            return None
        return after
