"""The offset index of a segment (`.index`): from an offset to a place in the log at or before it.

An entry is 8 bytes: the last offset of a batch, less the segment's base offset, and the batch's position. It tells only
where to begin to read. The segment decides when to add one, and finds the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.record.kernel.search import floor_offset
from storage.segment.index.ascending import AscendingIndex, AscendingReader, AscendingWriter, slots_before
from storage.segment.index.entries import OFFSET_ENTRY, OffsetEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRY: Final = OFFSET_ENTRY
_MAX_POSITION: Final = 2**31 - 1


class OffsetIndex(AscendingIndex):
    """The offset index of one segment; offsets and positions ascend."""

    entry_bytes = _ENTRY.size
    zeros_may_lead = False
    pack = staticmethod(_ENTRY.pack)  # of a relative offset and a position, as the file holds them

    @property
    def last_offset(self) -> int:
        """The offset of the last entry, or the base offset if there is none."""
        with self._lock:
            return self._last_offset()

    def lookup(self, offset: int) -> OffsetEntry:
        """Return the largest entry that is not above the offset, or the segment's beginning if there is none."""
        with self._lock:
            data, count = self._entries.used()
            slot = floor_offset(data, count, offset - self.base_offset)
            if slot < 0:
                return OffsetEntry(self.base_offset, 0)
            relative, position = _ENTRY.unpack_from(data, slot * _ENTRY.size)
        return OffsetEntry(self.base_offset + relative, position)

    def earlier(self, offset: int) -> list[OffsetEntry]:
        """Yield earlier entries, to begin at if the entry that `lookup` returns makes no sense.

        Their distances double. None is above the offset, even where entries do not ascend, and the segment's beginning
        is not among them.
        """
        with self._lock:
            data, count = self._entries.used()
            slots = slots_before(floor_offset(data, count, offset - self.base_offset))
            found = [_ENTRY.unpack_from(data, slot * _ENTRY.size) for slot in slots]
        entries = [OffsetEntry(self.base_offset + relative, position) for relative, position in found]
        return [entry for entry in entries if entry.offset <= offset]

    def check(self) -> None:
        """Raise `CorruptIndexError` if the index cannot be one, by the same tests as Kafka's own check.

        A zero tail is recognised and is no error.
        """
        with self._lock:
            count, size_bytes, last_offset = self._entries.count, self._entries.size_bytes, self._last_offset()
        self._check_end(count, last_offset, size_bytes)

    def __iter__(self) -> Iterator[OffsetEntry]:
        for run in self._runs():
            for relative, position in _ENTRY.iter_unpack(run):
                yield OffsetEntry(self.base_offset + relative, position)

    def _last_offset(self) -> int:
        last = self._entries.last()
        relative: int = _ENTRY.unpack(last)[0] if last else 0
        return self.base_offset + relative


class OffsetIndexReader(AscendingReader, OffsetIndex):
    """The offset index of a segment, for lookups only."""


class OffsetIndexWriter(AscendingWriter, OffsetIndex):
    """The offset index of a segment that is appended to."""

    @property
    def is_full(self) -> bool:
        """True if there is no slot for another entry, which makes the log roll. Only the writing thread asks."""
        entries = self._entries
        return entries.count >= entries.slots

    def append(self, offset: int, position: int) -> None:
        """Add an entry above all others, or raise `InvalidIndexEntryError`."""
        with self._lock:
            entries = self._entries
            if entries.count >= entries.slots:
                raise self._refused(f"the index is full: it has {entries.slots} slots", offset)
            if entries.count and offset <= self._last_offset():
                raise self._refused(f"the offset is not above the last one, {self._last_offset()}", offset)
            if not 0 <= position <= _MAX_POSITION:
                raise self._refused(f"the position {position} cannot be stored in 32 bits", offset)
            entries.add(self.pack(self._relative(offset), position))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above the offset."""
        with self._lock:
            entries = self._entries
            # Not above the offset less one is the same as below the offset.
            entries.truncate(floor_offset(*entries.used(), offset - 1 - self.base_offset) + 1)
