"""A file of ascending entries of one size, as the offset index and the time index are.

A *writer* has the file to itself. It keeps the entries in memory, gives the file its full size while its segment is
active, allocates space on disk ahead of its entries, and trims it afterwards. A *reader* changes not one byte of the
file, and a live broker may append to it, trim it or delete it meanwhile. `OffsetIndex` and `TimeIndex` say what entries
mean and which may follow which.

One thread may write while any number look up; threads that share an index need no lock of their own.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from storage.errors import CorruptIndexError, InvalidIndexEntryError
from storage.segment.index.loaded import Index, IndexReader
from storage.segment.index.writable_entries import WritableEntries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Directory
    from storage.segment.index.loaded import LoadedEntries

_MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_ITERATION_SLOTS: Final = 1024


class AscendingIndex(Index):
    """An index whose entries ascend."""

    _entries: WritableEntries | LoadedEntries

    @property
    def entries_count(self) -> int:
        """The number of entries."""
        with self._lock:
            return self._entries.count

    @property
    def ignored_slots(self) -> int:
        """The number of slots after the last entry whose zeros a broker would take for entries.

        A writer gives the number that it found when it opened the file.
        """
        with self._lock:
            return self._entries.ignored_slots

    def _check_end(self, count: int, last_offset: int, size_bytes: int) -> None:
        """Raise `CorruptIndexError` for a last offset or a file length that no broker leaves."""
        if count and last_offset < self.base_offset:
            raise CorruptIndexError(
                f"the last offset is below the base offset {self.base_offset}",
                path=self.path,
                position=(count - 1) * self.entry_bytes,
                offset=last_offset,
            )
        if size_bytes % self.entry_bytes:
            raise CorruptIndexError(
                f"the file has {size_bytes} bytes, which is not a multiple of {self.entry_bytes}", path=self.path
            )

    def _runs(self) -> Iterator[bytes]:
        """Yield the entries, in runs, each as it is when it is requested."""
        slot = 0
        while True:
            with self._lock:
                data, count = self._entries.used()
                end = min(slot + _ITERATION_SLOTS, count)
                run = bytes(data[slot * self.entry_bytes : end * self.entry_bytes])
            if not run:
                return
            yield run
            slot = end


class AscendingReader(IndexReader, AscendingIndex):
    """An index for lookups only."""

    _entries: LoadedEntries


class AscendingWriter(AscendingIndex):
    """An index whose file this object alone writes.

    Each kind of index defines its `append`. After `close` lookups find no entries.
    """

    _entries: WritableEntries

    def __init__(self, path: str, base_offset: int, entries: WritableEntries) -> None:
        super().__init__(path, base_offset)
        self._entries = entries
        # Taken before the other: no flush while the memory is replaced, and none stops lookups.
        self._length_lock = Lock()

    @classmethod
    def create(cls, directory: Directory, name: str, base_offset: int, max_bytes: int) -> Self:
        """Make an empty index for an active segment, and replace a file of its name.

        The file gets `max_bytes`, rounded down to whole entries. If there is no space for it, it is left empty.
        """
        entries = WritableEntries.create(directory, name, cls.entry_bytes, max_bytes)
        return cls(directory.path_of(name), base_offset, entries)

    @classmethod
    def open(cls, directory: Directory, name: str, base_offset: int, max_bytes: int) -> Self:
        """Open a file that no other process writes, as it is, without room for more entries until `expand`.

        Every entry is trusted but the zeros of a tail that was never trimmed; `ignored_slots` counts those.
        """
        entries = WritableEntries.open(directory, name, cls.entry_bytes, max_bytes, zeros_may_lead=cls.zeros_may_lead)
        return cls(directory.path_of(name), base_offset, entries)

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        with self._lock:
            self._entries.truncate(count)

    def clear(self) -> None:
        """Drop every entry and give the file its full size; without the space for it the index is empty and full."""
        with self._length_lock, self._lock:
            self._entries.clear()

    def expand(self) -> None:
        """Give the file of a segment that becomes active its full size, and space for an entry; entries stay.

        If there is no space, the entries are as they were and the index is full.
        """
        with self._length_lock, self._lock:
            self._entries.expand()

    def reserve(self, more: int) -> None:
        """Allocate space on disk for so many more entries, as far as there are slots for them.

        An error changes nothing. Afterwards a full disk cannot keep these entries from being added.
        """
        self._entries.reserve(more)  # without a lock: lookups are not affected, and only the writing thread asks

    def trim(self) -> None:
        """Cut the file to its entries; the index is full after that."""
        with self._length_lock, self._lock:
            self._entries.trim()

    def flush(self) -> None:
        """Return when the entries and the file's length are on disk. Lookups and appends go on meanwhile."""
        with self._length_lock:
            self._entries.flush()

    def rest(self) -> None:
        """Close the descriptor until `wake`. Lookups go on, each reading the file; everything is on disk already."""
        with self._length_lock, self._lock:
            self._entries.rest()

    def wake(self) -> None:
        """Open the file for appends again."""
        with self._length_lock, self._lock:
            self._entries.wake()

    def close(self) -> None:
        """Trim and close the file, and free all memory. Closing twice is harmless."""
        with self._length_lock, self._lock:
            self._entries.close()

    def _relative(self, offset: int) -> int:
        """Return the offset as it is stored."""
        relative = offset - self.base_offset
        if not 0 <= relative <= _MAX_RELATIVE_OFFSET:
            raise self._refused(f"the offset is not within 2^31 - 1 of the base offset {self.base_offset}", offset)
        return relative

    def _refused(self, reason: str, offset: int) -> InvalidIndexEntryError:
        return InvalidIndexEntryError(reason, path=self.path, offset=offset)


def slots_before(slot: int) -> list[int]:
    """Return the slots before one, at distances that double."""
    return [slot - (1 << doublings) for doublings in range(slot.bit_length())] if slot > 0 else []
