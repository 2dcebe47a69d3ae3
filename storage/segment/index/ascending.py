"""What the offset index and the time index have in common: a file of ascending entries of one size.

An index is open in one of two ways. *For writing*, the file is ours alone: it is mapped, has its full size while its
segment is the active one, with space allocated on disk ahead of its entries, and is trimmed when that is over. *For
reading*, not one byte of the file changes, and a live broker may append to it, trim it or delete it meanwhile. What
entries mean, and which may follow which, is said by `OffsetIndex` and `TimeIndex`.

One thread may write while any number look up; those who share an index need no lock of their own.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Final, Self

from storage.errors import CorruptIndexError, InvalidIndexEntryError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.segment.index.loaded import LoadedEntries
from storage.segment.index.mapped import MappedEntries
from storage.segment.index.source import PathSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Files
    from storage.segment.index.source import IndexSource

_MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_ITERATION_SLOTS: Final = 1024


class IndexFile:
    """One segment's index of one kind. All offsets given and taken are absolute."""

    entry_bytes: ClassVar[int]
    zeros_may_lead: ClassVar[bool]  # whether a broker may write an entry of zeros, which can only be the first

    def __init__(self, path: str | os.PathLike[str], base_offset: int, entries: MappedEntries | LoadedEntries) -> None:
        self.path = os.fspath(path)
        self.base_offset = base_offset
        self._entries = entries
        self._lock = Lock()  # held for every look at the entries and every change
        self._length_lock = Lock()  # taken before the other: no flush while the map is replaced, and none stops lookups

    @classmethod
    def create(cls, files: Files, path: str | os.PathLike[str], base_offset: int, max_bytes: int) -> Self:
        """Make an empty index for an active segment, in place of whatever file is there.

        The file gets `max_bytes`, rounded down to whole entries. If there is no space for it, it is left empty.
        """
        return cls(path, base_offset, MappedEntries.create(files, path, cls.entry_bytes, max_bytes))

    @classmethod
    def open_writing(cls, files: Files, path: str | os.PathLike[str], base_offset: int, max_bytes: int) -> Self:
        """Open a file of our own as it stands, full; `expand` makes room for more.

        Every entry is believed but the zeros of a tail that was never trimmed; `ignored_slots` counts those.
        """
        entries = MappedEntries.open(files, path, cls.entry_bytes, max_bytes, zeros_may_lead=cls.zeros_may_lead)
        return cls(path, base_offset, entries)

    @classmethod
    def open_reading(
        cls,
        files: Files,
        path: str | os.PathLike[str],
        base_offset: int,
        *,
        limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    ) -> Self:
        """An index to look things up in, of which nothing is read before that. A file that is missing has no entries.

        A lookup that would need more than `limit_bytes` of entries is a `CorruptIndexError`.
        """
        return cls.reading(PathSource(files, path), base_offset, limit_bytes=limit_bytes)

    @classmethod
    def reading(cls, source: IndexSource, base_offset: int, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> Self:
        """The same of a file that may be called otherwise later."""
        entries = LoadedEntries(source, cls.entry_bytes, zeros_may_lead=cls.zeros_may_lead, limit_bytes=limit_bytes)
        return cls(source.path, base_offset, entries)

    @property
    def entries_count(self) -> int:
        """How many entries there are."""
        with self._lock:
            return self._entries.count

    @property
    def ignored_slots(self) -> int:
        """How many slots behind the last entry hold zeros that a broker would take for entries.

        For writing, this is what was found when the index was opened.
        """
        with self._lock:
            return self._entries.ignored_slots

    @property
    def loaded_bytes(self) -> int:
        """The memory that `unload` would give back."""
        with self._lock:
            return self._entries.loaded_bytes

    def refresh(self) -> bool:
        """Bring in what has changed in a file open for reading, and say whether anything has.

        If the file is gone, what is known of it stays.
        """
        with self._lock:
            return self._reading().refresh()

    def unload(self) -> None:
        """Give back the memory of an index open for reading; the next lookup reads the file again."""
        with self._lock:
            self._reading().unload()

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        with self._lock:
            self._writing().truncate(count)

    def clear(self) -> None:
        """Drop every entry and give the file its full size; without the space for it the index is empty and full."""
        with self._length_lock, self._lock:
            self._writing().clear()

    def expand(self) -> None:
        """Give the file of a segment that becomes the active one its full size, and space for an entry; entries stay.

        If there is no space, the entries are as they were and the index is full.
        """
        with self._length_lock, self._lock:
            self._writing().expand()

    def reserve(self, more: int) -> None:
        """Have space on disk for so many more entries, as far as there are slots for them.

        Without the space nothing has changed. Adding them does not fail for want of it after that.
        """
        self._writing().reserve(more)  # without a lock: no lookup takes notice, and only the thread that writes asks

    def trim(self) -> None:
        """Cut the file to its entries; the index is full after that."""
        with self._length_lock, self._lock:
            self._writing().trim()

    def flush(self) -> None:
        """Return when the entries and the file's length are on disk. Lookups and appends go on meanwhile."""
        with self._length_lock:
            self._writing().flush()

    def rest(self) -> None:
        """Hold no descriptor until `wake`. Lookups go on, each reading the file; everything is on disk already."""
        with self._length_lock, self._lock:
            self._writing().rest()

    def wake(self) -> None:
        """Be ready for appends again."""
        with self._length_lock, self._lock:
            self._writing().wake()

    def close(self) -> None:
        """Trim what is open for writing, and let go of the file and all memory. Closing twice is harmless.

        Whoever still looks something up finds an index without entries, or reads a file open for reading again.
        """
        with self._length_lock, self._lock:
            if isinstance(self._entries, MappedEntries):
                self._entries.close()
            else:
                self._entries.unload()

    def _writing(self) -> MappedEntries:
        assert isinstance(self._entries, MappedEntries), "the index is open for reading"
        return self._entries

    def _reading(self) -> LoadedEntries:
        assert isinstance(self._entries, LoadedEntries), "the index is open for writing"
        return self._entries

    def _relative(self, offset: int) -> int:
        """The offset as it is stored."""
        relative = offset - self.base_offset
        if not 0 <= relative <= _MAX_RELATIVE_OFFSET:
            raise self._refused(f"the offset is not within 2^31 - 1 of the base offset {self.base_offset}", offset)
        return relative

    def _refused(self, reason: str, offset: int) -> InvalidIndexEntryError:
        return InvalidIndexEntryError(reason, path=self.path, offset=offset)

    def _check_end(self, count: int, last_offset: int, size_bytes: int) -> None:
        """Raise `CorruptIndexError` for a last offset or a file length that no broker leaves behind."""
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
        """The entries as they are when their turn comes, a run at a time."""
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


def slots_before(slot: int) -> list[int]:
    """The slots before one, at distances that double."""
    return [slot - (1 << doublings) for doublings in range(slot.bit_length())] if slot > 0 else []
