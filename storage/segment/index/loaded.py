"""An index file read while another process may write, trim or delete it at any time: it is never mapped or changed.

A reader opens the file when it first needs an entry, and keeps no descriptor. Entries that were read stay as they were
until `refresh` reads the file again or `unload` frees their memory.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from storage.errors import CorruptIndexError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.segment.index.zero_tail import probe_used_slots

if TYPE_CHECKING:
    from storage.files import Directory, FileStatus, ReadableFile


class Index:
    """One segment's index of one kind. It takes and returns absolute offsets."""

    entry_bytes: ClassVar[int]
    zeros_may_lead: ClassVar[bool]  # whether a broker may write an entry of zeros, which can only be the first

    def __init__(self, path: str | os.PathLike[str], base_offset: int) -> None:
        self.path = os.fspath(path)
        self.base_offset = base_offset
        self._lock = Lock()  # held while entries are read or changed


class IndexSource(Protocol):
    """The file of an index, which may be missing. Both methods are about the same file, even after a rename."""

    @property
    def path(self) -> str:
        """Its path now, or the last one that it had."""

    def status(self) -> FileStatus | None:
        """Return the file system's answer about the file, None if there is none."""

    def open(self) -> ReadableFile | None:
        """Open the file, which the caller closes; None if there is none."""


class NamedSource:
    """The file of one name in a directory."""

    def __init__(self, directory: Directory, name: str) -> None:
        self.path = directory.path_of(name)
        self._directory = directory
        self._name = name

    def status(self) -> FileStatus | None:
        """Return the file system's answer about the file, None if there is none."""
        return self._directory.status(self._name)

    def open(self) -> ReadableFile | None:
        """Open the file, which the caller closes; None if there is none."""
        try:
            return self._directory.open_reading(self._name)
        except FileNotFoundError:
            return None


class IndexReader(Index):
    """An index for lookups only. It reads nothing before a lookup, and a missing file has no entries.

    A lookup that needs more than `limit_bytes` of entries raises `CorruptIndexError`.
    """

    def __init__(self, source: IndexSource, base_offset: int, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> None:
        super().__init__(source.path, base_offset)
        self._entries = LoadedEntries(
            source, self.entry_bytes, zeros_may_lead=self.zeros_may_lead, limit_bytes=limit_bytes
        )

    @classmethod
    def open(
        cls, directory: Directory, name: str, base_offset: int, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    ) -> Self:
        """Return the index in a file of this name."""
        return cls(NamedSource(directory, name), base_offset, limit_bytes=limit_bytes)

    @property
    def loaded_bytes(self) -> int:
        """The memory that `unload` would free."""
        with self._lock:
            return self._entries.loaded_bytes

    def refresh(self) -> bool:
        """Read the changes in the file; True if there are any. The entries of a file that is gone stay."""
        with self._lock:
            return self._entries.refresh()

    def unload(self) -> None:
        """Free the memory. The next lookup reads the file again."""
        with self._lock:
            self._entries.unload()


class LoadedEntries:
    """The used entries of a file. A missing file has none. The caller takes the lock.

    A file of zeros is unused, except that where `zeros_may_lead` a file of exactly one entry counts as an entry. More
    than `limit_bytes` of entries is a `CorruptIndexError`.
    """

    __slots__ = (
        "_count",
        "_data",
        "_entry_bytes",
        "_identity",
        "_last",
        "_limit_bytes",
        "_size_bytes",
        "_source",
        "_zeros_may_lead",
    )

    def __init__(self, source: IndexSource, entry_bytes: int, *, zeros_may_lead: bool, limit_bytes: int) -> None:
        self._source = source
        self._entry_bytes = entry_bytes
        self._zeros_may_lead = zeros_may_lead
        self._limit_bytes = limit_bytes
        self._identity: tuple[int, int] | None = None
        self._size_bytes: int | None = None  # None before the first look
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
        """The memory that `unload` would free."""
        return len(self._data or b"")

    def last(self) -> bytes:
        """Return the last entry, empty if there is none; the others are not read for it."""
        self._look()
        return self._last

    def used(self) -> tuple[bytes, int]:
        """Return the entries and their number."""
        if self._data is None:
            if self._size_bytes is None:
                self._refresh(loads=True)
            if self._data is None:
                self._load()
        assert self._data is not None
        return self._data, self._count

    def refresh(self) -> bool:
        """Read the file's status again, and return whether the entries changed. If the file is gone, they stay."""
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
        """Free the memory; the entries are read again when they are needed."""
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
