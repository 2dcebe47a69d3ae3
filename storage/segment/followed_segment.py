"""A segment that another process appends to, or left without closing it. A reader looks for its end repeatedly.

After its end there may be a batch that is being written, the zeros of a preallocated file, or damage. Only damage is an
error, and only for a reader that wants to read on. Which segments a log has is left to others.
"""

from __future__ import annotations

from enum import Enum
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import FramingError
from storage.record.layout import BATCH_HEADER_BYTES, LARGEST_OFFSET_DELTA, NO_TIMESTAMP
from storage.segment.index.entries import TimeEntry
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import Kind
from storage.segment.scan import LogScan
from storage.segment.segment import Segment
from storage.segment.sound_batch_search import find_sound_batch

if TYPE_CHECKING:
    from storage.files import Directory, ReadableFile
    from storage.record.reading import Batch
    from storage.segment.names import SegmentNames

SHORT_BYTES: Final = 4096
"""A log of at most this size is read whole where others are looked up: an index has no entry for it, as a rule."""

_FILE_END: Final = 2**63 - 1
_TRAIL_BATCHES: Final = 64
_LOOKS_AT_DAMAGE: Final = 2  # the second look shows that the first did not see a write in progress


class Change(Enum):
    """What changed in a segment between two looks."""

    NONE = "none"
    GROWN = "grown"
    REPLACED = "replaced"  # the last batch is no longer there: the log was truncated, and other batches may follow


class SegmentEnd(NamedTuple):
    """The end of a segment's batches, and the header of the last one.

    Only zeros lay between `position` and `zeros_end`. `damage` says why the batches end.
    """

    position: int
    next_offset: int
    header_position: int = 0
    header: bytes = b""
    zeros_end: int = 0
    damage: str | None = None

    @property
    def is_clean(self) -> bool:
        """True if the batches fill the file."""
        return self.zeros_end == 0 and self.damage is None

    @classmethod
    def after(cls, batch: Batch) -> Self:
        """Return the end of a segment whose last batch this is."""
        header = bytes(batch.view(0, min(batch.size_bytes, BATCH_HEADER_BYTES)))
        return cls(batch.position + batch.size_bytes, batch.last_offset + 1, batch.position, header)


class FollowedSegment(Segment):
    """A segment of a log that another process writes; only its batches are trusted.

    It ends with its last whole batch, found by framing from the last sound entry of its index. In front of the zeros of
    a preallocated file that batch is whole if its checksum is right. The end is looked for when it is first needed, and
    stays where it is until `look`. No index of a short log is read.
    """

    __slots__ = ("_end", "_is_short", "_looking", "_tail", "_trail")

    def __init__(self, directory: Directory, names: SegmentNames) -> None:
        super().__init__(directory, names.base_offset, is_finished=False, names=names)
        self._end: SegmentEnd | None = None
        self._is_short = False
        self._tail: tuple[int, int, bool] | None = None  # the last bytes read after the end
        self._trail: list[SegmentEnd] | None = None  # where at least the last `_TRAIL_BATCHES` end, ascending
        self._looking = RLock()  # held while the end, or a value that depends on it, is looked for

    @property
    def end(self) -> SegmentEnd:
        """The end of the batches, as of the last look."""
        if self._end is None:
            with self._looking:
                if self._end is None:
                    self._end = self._find_end()
        return self._end

    @property
    def known_end(self) -> SegmentEnd | None:
        """The end without looking for it; None before the first look."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return self.end.position

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, -1 if there is none, and an offset that leads to the first batch with it."""
        if self._largest is None:
            with self._looking:
                if self._largest is None:
                    self._largest = self.read_largest_timestamp()
                    self.unload()  # a segment that is used for nothing else keeps no memory
        return self._largest

    def look(self) -> Change:
        """Update the end, if it is known, and the indexes that were used, and return what changed.

        The log was truncated if the last known batch is no longer at its place, with its offset, leader epoch and
        checksum. As no two leaders write in the same epoch, a batch that is still there proves that the batches before
        it are the same too. In the old formats, which have no epochs, that is as sure as a checksum.
        """
        with self._looking:
            known = self._end
            if known is None:
                return Change.NONE
            with self.open_log() as file:
                if not _has(file, known):
                    return Change.REPLACED
                if known.zeros_end == file.size_bytes() and _is_unused(file, known.position, known.zeros_end, 0):
                    return Change.NONE
                end, largest = self._scan(file, known)
                if not _has(file, known):
                    return Change.REPLACED
            self._end = end
            self._is_short = self._is_short and end.position <= SHORT_BYTES
            if end.position == known.position:
                return Change.NONE if end.damage == known.damage else Change.GROWN
            if self._largest is not None and largest[0] > self._largest[0]:
                self._largest = largest
            self.refresh_indexes()
            return Change.GROWN

    def scan_near(self, file: ReadableFile, offset: int, end: int, window_bytes: int) -> LogScan:
        """Return a scan up to `end`, from a batch before which all offsets are below this one."""
        if self._is_short:
            return LogScan(file, end=end, is_within=True, window_bytes=window_bytes)
        return super().scan_near(file, offset, end, window_bytes)

    def believed(self, timestamp: int, end: int | None) -> TimeEntry:
        """Return a confirmed entry of the time index for a timestamp, or the beginning."""
        if self._is_short:
            return TimeEntry(NO_TIMESTAMP, self.base_offset)
        return super().believed(timestamp, end)

    def common_offset(self) -> int | None:
        """Return the offset up to which the file is unchanged, for a caller to whom `look` reported a replacement.

        It is one of the ends of the last batches that were seen to arrive; None if none of those batches is there.
        """
        with self._looking, self.open_log() as file:
            return next((end.next_offset for end in reversed(self._trail or ()) if _has(file, end)), None)

    def refresh_indexes(self) -> None:
        """Refresh the indexes that were used."""
        for index in (self._offset_reader, self._time_reader, self._transaction_reader):
            if index is not None:
                index.refresh()

    def check_end(self, end: int | None = None) -> None:
        """Raise `FramingError` if the batches end before `end` at damage, after which more may follow."""
        known = self.end
        if end is not None and end < known.position:
            return
        if known.damage is not None:
            raise FramingError(known.damage, path=self.path(Kind.LOG), position=known.position)
        if known.zeros_end == 0 and self._hides_batches(known):
            raise FramingError(
                "whole batches follow a batch that goes on after the end of the file by its own length",
                path=self.path(Kind.LOG),
                position=known.position,
            )

    def _hides_batches(self, known: SegmentEnd) -> bool:
        """Return True if the bytes after the end look like an unfinished batch, but a sound batch follows them.

        An appender writes one batch after another, so no sound batch follows one that is not whole.
        """
        status = self.log_status()
        if status is None or status.size_bytes <= known.position:
            return False  # a reader notices that a log is gone when it opens it
        start, end = known.position, status.size_bytes
        with self._looking:
            if self._tail is None or self._tail[:2] != (start, end):
                hidden = None
                with self.open_log() as file:
                    if next(iter(LogScan(file, start=start, end=end)), None) is None:  # the log has not grown meanwhile
                        hidden = find_sound_batch(
                            file, start + 1, end, base_offset=self.base_offset, next_offset=known.next_offset
                        )
                self._tail = (start, end, hidden is not None)
            return self._tail[2]

    def _find_end(self) -> SegmentEnd:
        with self.open_log() as file:
            size_bytes = file.size_bytes()
            if size_bytes <= SHORT_BYTES:
                end, largest = self._scan(file, SegmentEnd(0, self.base_offset))
                if end.position == size_bytes:
                    self._largest, self._is_short = largest, True
                    return end
        start = 0
        try:
            for first in self.batches_near(self.offset_index.last_offset, _FILE_END):
                start = first.position
                break
        except FramingError:
            pass  # no batch begins the segment
        with self.open_log() as file:
            end, _ = self._scan(file, SegmentEnd(start, self.base_offset))
            is_whole = end.position > start
            # No checksum of the last batch was computed: the batches before it say what its header can be.
            is_as_indexed = end.header_position > start or end.next_offset == self.offset_index.last_offset + 1
            if start > 0 and not (is_whole and is_as_indexed):
                end, _ = self._scan(file, SegmentEnd(0, self.base_offset))
        return end

    def _scan(self, file: ReadableFile, known: SegmentEnd) -> tuple[SegmentEnd, tuple[int, int]]:
        """Return the end, sought from a known one on, and the largest timestamp passed with its batch's last offset."""
        end, largest, looks = known, (NO_TIMESTAMP, self.base_offset), 0
        while looks < _LOOKS_AT_DAMAGE:
            previous: Batch | None = None
            last: Batch | None = None
            largest_before = largest
            scan = LogScan(file, start=end.position)
            reason = None
            try:
                for batch in scan:
                    previous, last, largest_before = last, batch, largest
                    self._remember(SegmentEnd.after(batch))
                    if batch.max_timestamp > largest[0]:
                        largest = (batch.max_timestamp, batch.last_offset)
            except FramingError as error:
                reason = error.reason
            before = end if previous is None else SegmentEnd.after(previous)
            if last is not None:
                end = self._credible(SegmentEnd.after(last), before)
            if reason is None:
                return end if end.is_clean else end._replace(zeros_end=0, damage=None), largest
            if _is_unused(file, end.position, known.zeros_end, scan.end):
                if last is not None and not last.crc_matches:  # it is being written, or its writer died
                    return before._replace(zeros_end=0, damage=None), largest_before
                return end._replace(zeros_end=scan.end, damage=None), largest
            looks = looks + 1 if last is None else 1
        return end._replace(zeros_end=0, damage=reason), largest

    def _remember(self, end: SegmentEnd) -> None:
        if self._trail is None:
            self._trail = []
        self._trail.append(end)
        if len(self._trail) > 2 * _TRAIL_BATCHES:
            del self._trail[:-_TRAIL_BATCHES]

    def _credible(self, end: SegmentEnd, before: SegmentEnd) -> SegmentEnd:
        """Return the end; if its offset cannot be right, with the least that a batch after `before` ends with."""
        if before.next_offset < end.next_offset <= self.base_offset + LARGEST_OFFSET_DELTA + 1:
            return end
        return end._replace(next_offset=before.next_offset + 1)


def _has(file: ReadableFile, end: SegmentEnd) -> bool:
    """Return True if the last known batch is still there."""
    if file.size_bytes() < end.position:
        return False
    return file.read_at(end.header_position, len(end.header)) == end.header


def _is_unused(file: ReadableFile, position: int, zeros_end: int, file_end: int) -> bool:
    """Return True if only zeros follow the position. Those up to `zeros_end` are overwritten only in order."""
    return is_zero(file, position, position + BATCH_HEADER_BYTES) and is_zero(file, max(position, zeros_end), file_end)
