"""A segment that another process appends to, or left without closing it. Its end is looked for again and again.

After its end there may be a batch that is being written, the zeros of a preallocated file, or damage; only the last
is an error, for those who want to read on. Which segments a log has is left to others.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import FramingError
from storage.record.layout import BATCH_HEADER_BYTES, LARGEST_OFFSET_DELTA, NO_TIMESTAMP
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import Kind
from storage.segment.scan import LogScan
from storage.segment.segment import Segment
from storage.segment.sound_batch_search import find_sound_batch

if TYPE_CHECKING:
    from storage.files import Directory, ReadableFile
    from storage.record.reading import Batch
    from storage.segment.names import SegmentNames

_FILE_END: Final = 2**63 - 1
_TRAIL_BATCHES: Final = 64
_LOOKS_AT_DAMAGE: Final = 2  # as many as show that it is not something that was being written at the first


class Change(Enum):
    """What changed in a segment between two looks."""

    NONE = "none"
    GROWN = "grown"
    REPLACED = "replaced"  # the last batch is no longer there: the log was truncated, and other batches may follow


class SegmentEnd(NamedTuple):
    """The end of the batches of a segment, and what the last of them looks like.

    From there to `zeros_end` there were only zeros. `damage` says why they end.
    """

    position: int
    next_offset: int
    header_position: int = 0
    header: bytes = b""
    zeros_end: int = 0
    damage: str | None = None

    @classmethod
    def after(cls, batch: Batch) -> Self:
        """The end if this is the last batch."""
        header = bytes(batch.view(0, min(batch.size_bytes, BATCH_HEADER_BYTES)))
        return cls(batch.position + batch.size_bytes, batch.last_offset + 1, batch.position, header)


class FollowedSegment(Segment):
    """A segment of another's log, of which nothing is believed but what its batches say.

    It ends with its last whole batch, as far as framing leads from the last sound entry of its index; in front of the
    zeros of a preallocated file that batch is whole if it has its checksum. The end is looked for when it is first
    asked for, and stays where it is until `look`.
    """

    __slots__ = ("_end", "_looking", "_tail", "_trail")

    def __init__(self, directory: Directory, names: SegmentNames) -> None:
        super().__init__(directory, names.base_offset, is_finished=False, names=names)
        self._end: SegmentEnd | None = None
        self._tail: tuple[int, int, bool] | None = None  # the last bytes after the end that were looked at
        self._trail: deque[SegmentEnd] = deque(maxlen=_TRAIL_BATCHES)  # where the last batches end, ascending
        self._looking = RLock()  # held while the end is looked for, and while what depends on it is

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
        """The same without looking for it; None if it was not looked for yet."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return self.end.position

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, -1 for none, and an offset that leads to the first batch that has it."""
        if self._largest is None:
            with self._looking:
                if self._largest is None:
                    self._largest = self.read_largest_timestamp()
                    self.unload()  # one that is not used for anything else keeps no memory
        return self._largest

    def look(self) -> Change:
        """Bring in what has changed since the end was last looked for; nothing if it never was.

        A truncation shows if the last batch that was known is no longer at its place, with the offset, leader epoch and
        checksum that it had. Since no two leaders write in the same epoch, the batches before it are then the same too;
        in the old formats, which have no epochs, that is as sure as a checksum.
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
            if end.position == known.position:
                return Change.NONE if end.damage == known.damage else Change.GROWN
            if self._largest is not None and largest[0] > self._largest[0]:
                self._largest = largest
            self.refresh_indexes()
            return Change.GROWN

    def common_offset(self) -> int | None:
        """The offset up to which the file still holds what it did, to be asked once `look` says that it was replaced.

        That goes back no further than the last batches that were seen to come; None if none of them is there.
        """
        with self._looking, self.open_log() as file:
            return next((end.next_offset for end in reversed(self._trail) if _has(file, end)), None)

    def refresh_indexes(self) -> None:
        """Bring in what has changed in those indexes that were used."""
        for index in (self._offset_reader, self._time_reader, self._transaction_reader):
            if index is not None:
                index.refresh()

    def check_end(self, end: int | None = None) -> None:
        """Raise `FramingError` if the batches end before this at damage, after which there may be more."""
        known = self.end
        if end is not None and end < known.position:
            return
        if known.damage is not None:
            raise FramingError(known.damage, path=self.path(Kind.LOG), position=known.position)
        if known.zeros_end == 0 and self._hides_batches(known):
            raise FramingError(
                "whole batches follow a batch that goes on behind the end of the file by its own length",
                path=self.path(Kind.LOG),
                position=known.position,
            )

    def _hides_batches(self, known: SegmentEnd) -> bool:
        """Return True if the bytes after the end begin as a batch that is being written would, and are something else.

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
                    if next(iter(LogScan(file, start=start, end=end)), None) is None:  # it has not grown since
                        hidden = find_sound_batch(
                            file, start + 1, end, base_offset=self.base_offset, next_offset=known.next_offset
                        )
                self._tail = (start, end, hidden is not None)
            return self._tail[2]

    def _find_end(self) -> SegmentEnd:
        start = 0
        try:
            for first in self.batches_near(self.offset_index.last_offset, _FILE_END):
                start = first.position
                break
        except FramingError:
            pass  # the segment begins with what is no batch
        with self.open_log() as file:
            end, _ = self._scan(file, SegmentEnd(start, self.base_offset))
            is_whole = end.position > start
            # Nothing has summed up the header of the last batch: what is before it says what it can be.
            is_as_indexed = end.header_position > start or end.next_offset == self.offset_index.last_offset + 1
            if start > 0 and not (is_whole and is_as_indexed):
                end, _ = self._scan(file, SegmentEnd(0, self.base_offset))
        return end

    def _scan(self, file: ReadableFile, known: SegmentEnd) -> tuple[SegmentEnd, tuple[int, int]]:
        """The end, sought from a known one on, and the largest timestamp on the way with its batch's last offset."""
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
                    self._trail.append(SegmentEnd.after(batch))
                    if batch.max_timestamp > largest[0]:
                        largest = (batch.max_timestamp, batch.last_offset)
            except FramingError as error:
                reason = error.reason
            before = end if previous is None else SegmentEnd.after(previous)
            if last is not None:
                end = self._credible(SegmentEnd.after(last), before)
            if reason is None:
                return end._replace(zeros_end=0, damage=None), largest
            if _is_unused(file, end.position, known.zeros_end, scan.end):
                if last is not None and not last.crc_matches:  # it is being written, or its writer died
                    return before._replace(zeros_end=0, damage=None), largest_before
                return end._replace(zeros_end=scan.end, damage=None), largest
            looks = looks + 1 if last is None else 1
        return end._replace(zeros_end=0, damage=reason), largest

    def _credible(self, end: SegmentEnd, before: SegmentEnd) -> SegmentEnd:
        """The end of a batch whose header may be damaged: after the batch before it, and within the segment."""
        if before.next_offset < end.next_offset <= self.base_offset + LARGEST_OFFSET_DELTA + 1:
            return end
        return end._replace(next_offset=before.next_offset + 1)


def _has(file: ReadableFile, end: SegmentEnd) -> bool:
    """True if the last known batch is still there."""
    if file.size_bytes() < end.position:
        return False
    return file.read_at(end.header_position, len(end.header)) == end.header


def _is_unused(file: ReadableFile, position: int, zeros_end: int, file_end: int) -> bool:
    """True if there are nothing but zeros from the position on; those up to `zeros_end` are written in order only."""
    return is_zero(file, position, position + BATCH_HEADER_BYTES) and is_zero(file, max(position, zeros_end), file_end)
