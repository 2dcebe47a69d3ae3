"""One segment of a log, read: the places of offsets and times in it, and its batches.

Nothing is opened before it is needed. Each reading opens the log and closes it when it ends; only lookups may hold the
log open. The held log and the loaded indexes are kept until `unload`. A segment that is deleted or replaced can be read
until its files are removed. A reading under way then goes on to its end, and a new one raises `FileNotFoundError`.
"""

from __future__ import annotations

import os
from errno import ENOENT
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import FramingError
from storage.record.layout import NO_TIMESTAMP
from storage.segment.index.entries import TimeEntry
from storage.segment.index.offset import OffsetIndex, OffsetIndexReader
from storage.segment.index.time import TimeIndex, TimeIndexReader
from storage.segment.index.txn import TransactionIndex, TransactionIndexReader
from storage.segment.names import Kind, SegmentNames
from storage.segment.scan import WINDOW_BYTES, LogScan
from storage.segment.segment_files import SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Directory, FileStatus, ReadableFile
    from storage.record.reading import Batch
    from storage.segment.index.entries import OffsetEntry

LOOKUP_WINDOW_BYTES: Final = 32 * 1024
"""The size of a read in a lookup, which begins near the batch that it looks for."""

_LAST_TIMESTAMP: Final = 2**63 - 1
_making: Final = Lock()
"""Held while a segment's index object is made or dropped, so that there is one of each. A log has many segments."""


class TimestampAndOffset(NamedTuple):
    """A record's offset, its timestamp and the epoch of the leader that wrote it; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class Segment:
    """The segment of a directory that begins at `base_offset`.

    `size_bytes` is where its batches end in a file that may be longer; without it the batches fill the file. An
    unfinished segment, to which a broker still appends or appended when it died, has a time index that lacks the last
    batches and may hold entries from before a truncation. A lookup always reads the place that an entry of the offset
    index leads to, and passes over an entry that makes no sense. Any number of threads may use a segment. Bounds called
    `end` are positions; None is the segment's end.

    `own_files` follows the names of its files. A second object for the same segment is made with `share_files_with` the
    first, so that a deletion or a move reaches both.
    """

    __slots__ = (
        "__weakref__",
        "_first_timestamp",
        "_is_finished",
        "_largest",
        "_offset_reader",
        "_size_bytes",
        "_time_reader",
        "_transaction_reader",
        "base_offset",
        "own_files",
    )

    own_files: SegmentFiles

    def __init__(
        self,
        directory: Directory,
        base_offset: int,
        *,
        size_bytes: int | None = None,
        is_finished: bool = True,
        share_files_with: Segment | None = None,
        names: SegmentNames | None = None,
    ) -> None:
        self.base_offset = base_offset
        if names is None:
            names = SegmentNames(base_offset, frozenset())
        self.own_files = SegmentFiles(directory, names) if share_files_with is None else share_files_with.own_files
        self._size_bytes = size_bytes
        self._is_finished = is_finished
        self._first_timestamp: int | None = None
        self._largest: tuple[int, int] | None = None
        self._offset_reader: OffsetIndexReader | None = None
        self._time_reader: TimeIndexReader | None = None
        self._transaction_reader: TransactionIndexReader | None = None

    @property
    def directory(self) -> Directory:
        """The directory that its files are in now."""
        return self.own_files.directory

    def name(self, kind: Kind) -> str:
        """Return the name of the segment's file of this kind, if it has one."""
        return self.own_files.name(kind)

    def path(self, kind: Kind) -> str:
        """Return the path of the segment's file of this kind, as messages have it."""
        return self.own_files.path(kind)

    def log_status(self) -> FileStatus | None:
        """Return the file system's answer about the log now, None if the log is gone."""
        return self.own_files.status(Kind.LOG)

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        if self._size_bytes is None:
            status = self.log_status()
            if status is None:
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path(Kind.LOG))
            self._size_bytes = status.size_bytes
        return self._size_bytes

    @property
    def offset_index(self) -> OffsetIndex:
        """The index from offsets to positions."""
        reader = self._offset_reader
        if reader is None:
            with _making:
                reader = self._offset_reader
                if reader is None:
                    reader = OffsetIndexReader(self.own_files.index(Kind.OFFSET_INDEX), self.base_offset)
                    self._offset_reader = reader
        return reader

    @property
    def time_index(self) -> TimeIndex:
        """The index from timestamps to offsets."""
        reader = self._time_reader
        if reader is None:
            with _making:
                reader = self._time_reader
                if reader is None:
                    reader = TimeIndexReader(self.own_files.index(Kind.TIME_INDEX), self.base_offset)
                    self._time_reader = reader
        return reader

    @property
    def transaction_index(self) -> TransactionIndex:
        """The index of the transactions that were aborted in this segment."""
        reader = self._transaction_reader
        if reader is None:
            with _making:
                reader = self._transaction_reader
                if reader is None:
                    reader = TransactionIndexReader(self.own_files.index(Kind.TRANSACTION_INDEX), self.base_offset)
                    self._transaction_reader = reader
        return reader

    def batches(self, start: int = 0, end: int | None = None, *, window_bytes: int = WINDOW_BYTES) -> Iterator[Batch]:
        """Yield the batches from the position `start`, at which one begins, up to the end."""
        bound = self.size_bytes if end is None else end
        if start >= bound:
            return
        with self.open_log() as file:
            yield from LogScan(file, start=start, end=bound, window_bytes=window_bytes)

    def batches_from(self, offset: int, end: int | None, *, window_bytes: int = WINDOW_BYTES) -> Iterator[Batch]:
        """Yield the batches from the one on that `find` returns."""
        bound = self.size_bytes if end is None else end
        if bound <= 0:
            return
        with self.open_log() as file:
            first = self._find_in(file, offset, bound)
            if first is not None:
                yield first
                start = first.position + first.size_bytes
                if start < bound:
                    yield from LogScan(file, start=start, end=bound, window_bytes=window_bytes)

    def open_log(self) -> ReadableFile:
        """Open the log. The caller closes it."""
        return self.own_files.open_log()

    def find(self, offset: int, end: int | None = None, *, holds_log: bool = False) -> Batch | None:
        """Return the first batch whose last offset is not below the offset; where offsets are missing it begins above.

        None if there is none; segments after this one may still have the offset. `holds_log` leaves the log open for
        the next lookup.
        """
        bound = self.size_bytes if end is None else end
        if bound <= 0:
            return None
        if holds_log:
            held = self.own_files.held_log()
            return self._find_in(held.file, offset, bound)
        with self.open_log() as file:
            return self._find_in(file, offset, bound)

    def _find_in(self, file: ReadableFile, offset: int, end: int) -> Batch | None:
        return self.scan_near(file, offset, end, LOOKUP_WINDOW_BYTES).find(offset)

    def batches_near(self, offset: int, end: int | None, *, window_bytes: int = LOOKUP_WINDOW_BYTES) -> Iterator[Batch]:
        """Yield the batches from one on before which all offsets are below this one."""
        bound = self.size_bytes if end is None else end
        if bound > 0:
            with self.open_log() as file:
                yield from self.scan_near(file, offset, bound, window_bytes)

    def scan_near(self, file: ReadableFile, offset: int, end: int, window_bytes: int) -> LogScan:
        """Return a scan of the open log up to `end`, from a batch before which all offsets are below this one."""
        index = self.offset_index
        scan = self._scan_from(file, index.lookup(offset), end, window_bytes)
        if scan is None:
            earlier = (self._scan_from(file, each, end, window_bytes) for each in index.earlier(offset))
            scan = next((each for each in earlier if each is not None), None)
        return LogScan(file, end=end, is_within=True, window_bytes=window_bytes) if scan is None else scan

    def _scan_from(self, file: ReadableFile, entry: OffsetEntry, end: int, window_bytes: int) -> LogScan | None:
        """Return a scan from the batch that an entry points to; None if that is not the batch that it describes."""
        if entry.position < 0:
            return None
        scan = LogScan(file, start=entry.position, end=end, is_within=True, window_bytes=window_bytes)
        if entry.position > 0:
            last_offset = scan.next_last_offset
            if last_offset is None or not self.base_offset <= last_offset <= entry.offset:
                return None
        return scan

    def locate(self, offset: int, end: int | None = None) -> int | None:
        """Return the position of the batch that `find` returns; None if there is none."""
        batch = self.find(offset, end)
        return None if batch is None else batch.position

    def find_timestamp(self, timestamp: int, starting_offset: int, end: int | None = None) -> TimestampAndOffset | None:
        """Return the first record from `starting_offset` whose timestamp is not below this one.

        Raises `FramingError` if there is none and a finished segment ends with a part of a batch, which may have had
        it.
        """
        known = self.believed(timestamp, end)
        bound = self.size_bytes if end is None else end
        if bound <= 0:
            return None
        with self.open_log() as file:
            scan = self.scan_near(file, max(known.offset, starting_offset), bound, LOOKUP_WINDOW_BYTES)
            for batch in scan:
                if batch.max_timestamp >= timestamp:
                    for record in batch.records():
                        if record.timestamp >= timestamp and record.offset >= starting_offset:
                            return TimestampAndOffset(record.offset, record.timestamp, batch.leader_epoch)
            if self._is_finished and scan.trailing_bytes:
                reason = f"{scan.trailing_bytes} bytes follow the last whole batch"
                raise FramingError(reason, path=file.path, position=scan.position)
        return None

    def believed(self, timestamp: int, end: int | None) -> TimeEntry:
        """Return the time index's entry for a timestamp, or an earlier one, that the batches up to the end confirm."""
        index = self.time_index
        entry = index.lookup(timestamp)
        if self._is_finished or self._confirms(entry, end):
            return entry
        nothing = TimeEntry(NO_TIMESTAMP, self.base_offset)
        return next((each for each in index.earlier(timestamp) if self._confirms(each, end)), nothing)

    def _confirms(self, entry: TimeEntry, end: int | None) -> bool:
        """Return True if the batch that the entry names has its timestamp."""
        if entry.timestamp < 0:
            return True
        batch = self.find(entry.offset, end)
        return batch is not None and batch.max_timestamp == entry.timestamp

    def find_largest_timestamp(self, end: int | None = None) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp, which is -1 where none has one; None without records.

        Records of version 0 cannot have a timestamp and are passed over.
        """
        timestamp, offset = self.largest_timestamp
        # The offset is the batch's last one, or the record's own, which some versions wrote.
        for batch in self.batches_near(offset, end):
            if batch.max_timestamp == timestamp and batch.magic > 0:
                for record in batch.records():
                    if record.timestamp == timestamp:
                        return TimestampAndOffset(record.offset, timestamp, batch.leader_epoch)
        return None

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, -1 if there is none, and an offset that leads to the first batch with it."""
        if self._largest is None:
            self._largest = self.time_index.last_entry if self._is_finished else self.read_largest_timestamp()
        return self._largest

    def read_largest_timestamp(self) -> tuple[int, int]:
        """Return `largest_timestamp`, read from the batches after the time index's last entry too."""
        largest: tuple[int, int] = self.believed(_LAST_TIMESTAMP, None)
        for batch in self.batches_near(largest[1], None, window_bytes=WINDOW_BYTES):
            if batch.max_timestamp > largest[0]:
                largest = (batch.max_timestamp, batch.last_offset)
        return largest

    @property
    def age_timestamp(self) -> int:
        """The time from which retention counts the segment's age: its largest timestamp, or its last modification."""
        timestamp, _ = self.largest_timestamp
        return timestamp if timestamp >= 0 else self.age_timestamp_of(self.log_status())

    def age_timestamp_of(self, log_status: FileStatus | None) -> int:
        """Return `age_timestamp`, for a caller that has looked at the log already."""
        timestamp, _ = self.largest_timestamp
        if timestamp >= 0:
            return timestamp
        return NO_TIMESTAMP if log_status is None else log_status.modified_ms

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp, by which segments are rolled; -1 if there is none."""
        if self._first_timestamp is None:
            for batch in self.batches(window_bytes=LOOKUP_WINDOW_BYTES):
                self._first_timestamp = batch.max_timestamp
                break
            else:
                return NO_TIMESTAMP
        return self._first_timestamp

    def read_next_offset(self) -> int:
        """Return the offset after the last batch, read from the offset index's last entry on."""
        next_offset = self.base_offset
        for batch in self.batches_near(self.offset_index.last_offset, None, window_bytes=WINDOW_BYTES):
            next_offset = batch.last_offset + 1
        return next_offset

    def end_below(self, offset: int) -> int:
        """Return the offset after the last batch that ends before the offset, or the base offset."""
        next_offset = self.base_offset
        for batch in self.batches_near(offset - 1, None):
            if batch.last_offset >= offset:
                break
            next_offset = batch.last_offset + 1
        return next_offset

    def check_end(self, end: int | None = None) -> None:
        """Raise `FramingError` if the batches end before `end` at damage, after which more may follow."""

    def unload(self) -> None:
        """Free the memory of the indexes and the descriptor of the log; both are opened again when needed."""
        self.own_files.release_log()
        with _making:
            indexes = (self._offset_reader, self._time_reader, self._transaction_reader)
            self._offset_reader = self._time_reader = self._transaction_reader = None
        for index in indexes:
            if index is not None:  # another thread may have it
                index.unload()
