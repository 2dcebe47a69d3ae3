"""The time index of a segment (`.timeindex`): from a timestamp to an offset up to which no record is later.

An entry is 12 bytes: the largest timestamp of the segment so far, and the last offset of its batch, less the segment's
base offset. The segment decides when to add one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import CorruptIndexError
from storage.record.kernel.search import floor_timed_offset, floor_timestamp
from storage.segment.index.ascending import AscendingIndex, AscendingReader, AscendingWriter, slots_before
from storage.segment.index.entries import TIME_ENTRY, TimeEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRY: Final = TIME_ENTRY
_NO_TIMESTAMP: Final = -1


class TimeIndex(AscendingIndex):
    """The time index of one segment; timestamps ascend, and offsets never descend.

    A segment may begin with a record of 1970-01-01T00:00:00Z, whose entry is all zeros. In a file with one slot zeros
    are taken for that entry; in front of a zero tail they are not, which changes no lookup.
    """

    entry_bytes = _ENTRY.size
    zeros_may_lead = True
    pack = staticmethod(_ENTRY.pack)  # of a timestamp and a relative offset, as the file holds them

    @property
    def last_entry(self) -> TimeEntry:
        """The last entry, or no timestamp (-1) and the base offset if there is none."""
        with self._lock:
            return self._last_entry()

    def lookup(self, timestamp: int) -> TimeEntry:
        """Return the largest entry that is not above the timestamp, or no timestamp (-1) and the base offset."""
        with self._lock:
            data, count = self._entries.used()
            slot = floor_timestamp(data, count, timestamp)
            if slot < 0:
                return TimeEntry(_NO_TIMESTAMP, self.base_offset)
            found, relative = _ENTRY.unpack_from(data, slot * _ENTRY.size)
        return TimeEntry(found, self.base_offset + relative)

    def earlier(self, timestamp: int) -> list[TimeEntry]:
        """Yield earlier entries, to try if the entry that `lookup` returns makes no sense.

        Their distances double. None is above the timestamp, even where entries do not ascend, and the entry without a
        timestamp is not among them.
        """
        with self._lock:
            data, count = self._entries.used()
            slots = slots_before(floor_timestamp(data, count, timestamp))
            found = [_ENTRY.unpack_from(data, slot * _ENTRY.size) for slot in slots]
        entries = [TimeEntry(known, self.base_offset + relative) for known, relative in found]
        return [entry for entry in entries if entry.timestamp <= timestamp]

    def check(self) -> None:
        """Raise `CorruptIndexError` if the index cannot be one, by the same tests as Kafka's own check.

        A zero tail is recognised and is no error.
        """
        with self._lock:
            data, count = self._entries.used()
            first_timestamp = _ENTRY.unpack_from(data)[0] if count else _NO_TIMESTAMP
            last, size_bytes = self._last_entry(), self._entries.size_bytes
        if count and last.timestamp < first_timestamp:
            raise CorruptIndexError(
                f"the last timestamp {last.timestamp} is below the first, {first_timestamp}",
                path=self.path,
                position=(count - 1) * _ENTRY.size,
                offset=last.offset,
            )
        self._check_end(count, last.offset, size_bytes)

    def __iter__(self) -> Iterator[TimeEntry]:
        for run in self._runs():
            for timestamp, relative in _ENTRY.iter_unpack(run):
                yield TimeEntry(timestamp, self.base_offset + relative)

    def _last_entry(self) -> TimeEntry:
        last = self._entries.last()
        timestamp, relative = _ENTRY.unpack(last) if last else (_NO_TIMESTAMP, 0)
        return TimeEntry(timestamp, self.base_offset + relative)


class TimeIndexReader(AscendingReader, TimeIndex):
    """The time index of a segment, for lookups only."""


class TimeIndexWriter(AscendingWriter, TimeIndex):
    """The time index of a segment that is appended to."""

    @property
    def is_full(self) -> bool:
        """True if only the slot for the final entry is left, which makes the log roll. Only the writing thread asks."""
        return self._is_full()

    def maybe_append(self, timestamp: int, offset: int, *, final: bool = False) -> None:
        """Add an entry if its timestamp is above the last one; an equal timestamp adds nothing.

        A smaller timestamp or offset, an offset out of range, and a full index raise `InvalidIndexEntryError`. The
        `final` entry, when a segment is rolled or closed, may take the slot that is kept for it.
        """
        with self._lock:
            entries = self._entries
            last = self._last_entry()
            if not final and self._is_full():
                raise self._refused(f"the time index is full: it has {entries.slots} slots", offset)
            if entries.count and offset < last.offset:
                raise self._refused(f"the offset is below the last one, {last.offset}", offset)
            if entries.count and timestamp < last.timestamp:
                raise self._refused(f"the timestamp {timestamp} is below the last one, {last.timestamp}", offset)
            if timestamp <= last.timestamp:
                return
            if entries.count >= entries.slots:
                raise self._refused(f"all {entries.slots} slots are used, and none is left for the final entry", offset)
            entries.add(self.pack(timestamp, self._relative(offset)))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offsets are at or above the offset."""
        with self._lock:
            entries = self._entries
            # Not above the offset less one is the same as below the offset.
            entries.truncate(floor_timed_offset(*entries.used(), offset - 1 - self.base_offset) + 1)

    def _is_full(self) -> bool:
        entries = self._entries
        return entries.count >= entries.slots - 1
