"""The entries of an index file that others may write, trim or delete at any time: read, never mapped or changed.

Nothing is read before it is asked for, and no descriptor is kept. What was read stays as it is, whatever happens to
the file, until `refresh` looks again or `unload` gives the memory back. Locking is the caller's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptIndexError
from storage.segment.index.zero_tail import probe_used_slots

if TYPE_CHECKING:
    from storage.files import ReadableFile
    from storage.segment.index.source import IndexSource


class LoadedEntries:
    """The used entries of a file; one that is not there has none.

    A file of zeros is unused, except that where `zeros_may_lead` a file of exactly one entry is taken at its word.
    More than `limit_bytes` of entries is a `CorruptIndexError`.
    """

    def __init__(self, source: IndexSource, entry_bytes: int, *, zeros_may_lead: bool, limit_bytes: int) -> None:
        self._source = source
        self._entry_bytes = entry_bytes
        self._zeros_may_lead = zeros_may_lead
        self._limit_bytes = limit_bytes
        self._identity: tuple[int, int] | None = None
        self._size_bytes: int | None = None  # None: not looked at yet
        self._count = 0
        self._last = b""
        self._data: bytes | None = None

    @property
    def count(self) -> int:
        """The number of used entries."""
        self._look()
        return self._count

    @property
    def slots(self) -> int:
        """The number of entries that the file has room for."""
        return self.size_bytes // self._entry_bytes

    @property
    def size_bytes(self) -> int:
        """The file's length when it was last looked at."""
        self._look()
        return self._size_bytes or 0

    @property
    def ignored_slots(self) -> int:
        """The number of unused slots after the last entry."""
        return self.slots - self._count

    @property
    def loaded_bytes(self) -> int:
        """The memory that `unload` would give back."""
        return len(self._data or b"")

    def last(self) -> bytes:
        """The last entry, empty if there is none; the others are not read for it."""
        self._look()
        return self._last

    def used(self) -> tuple[bytes, int]:
        """The entries, and how many they are."""
        if self._data is None:
            if self._size_bytes is None:
                self._refresh(loads=True)
            if self._data is None:
                self._load()
        assert self._data is not None
        return self._data, self._count

    def refresh(self) -> bool:
        """Look at the file again, and say whether the entries changed. If the file is gone, they stay."""
        return self._refresh(loads=False)

    def _refresh(self, *, loads: bool) -> bool:
        status = self._source.status()
        if status is None:
            self._size_bytes = self._size_bytes or 0
            return False
        is_same = status.identity == self._identity
        if is_same and status.size_bytes == self._size_bytes and self.ignored_slots == 0:
            return False
        file = self._source.open()
        if file is None:
            self._size_bytes = self._size_bytes or 0
            return False
        with file:
            return self._bring_in(file, status.identity, is_same=is_same, loads=loads)

    def unload(self) -> None:
        """Give the memory back; the entries are read again when they are needed."""
        self._data = None

    def _look(self) -> None:
        if self._size_bytes is None:
            self.refresh()

    def _bring_in(self, file: ReadableFile, identity: tuple[int, int], *, is_same: bool, loads: bool) -> bool:
        size_bytes = file.size_bytes()
        slots = size_bytes // self._entry_bytes
        # The last entry is read again: its writer may have been in the middle of it when we looked, or may have
        # truncated the index since and put another in its place.
        is_continued = is_same and slots >= self._count > 0 and self._read(file, self._count - 1, 1) == self._last
        known = self._count if is_continued else 0
        count = probe_used_slots(file, slots, self._entry_bytes, known)
        if count == 0 and slots == 1 and self._zeros_may_lead:
            count = 1
        if count * self._entry_bytes > self._limit_bytes:
            raise CorruptIndexError(
                f"the index has {count * self._entry_bytes} bytes of entries, above the limit of {self._limit_bytes}",
                path=self._source.path,
            )
        changed = known != self._count or count != known
        data = self._data
        if changed and data is not None:
            data = data + self._read(file, known, count - known) if known else None
        if loads and data is None:
            data = self._read(file, 0, count)
            last = data[max(count - 1, 0) * self._entry_bytes :]
        else:
            last = self._read(file, count - 1, 1) if count else b""
        if len(last) < self._entry_bytes:
            count = 0  # there is none, or the file was cut while we looked
        if data is not None and len(data) != count * self._entry_bytes:
            data = None
        self._identity, self._size_bytes = identity, size_bytes
        self._count, self._last, self._data = count, last, data
        return changed

    def _load(self) -> None:
        data = b""
        if self._count:
            file = self._source.open()
            if file is not None:
                with file:
                    data = self._read(file, 0, self._count)
        count = len(data) // self._entry_bytes
        if count < self._count:  # cut or removed since we looked at it, so the next refresh has to look again
            self._identity, self._size_bytes, self._count = None, len(data), count
            self._last = data[(count - 1) * self._entry_bytes : count * self._entry_bytes] if count else b""
        self._data = data

    def _read(self, file: ReadableFile, slot: int, count: int) -> bytes:
        return file.read_at(slot * self._entry_bytes, count * self._entry_bytes)
