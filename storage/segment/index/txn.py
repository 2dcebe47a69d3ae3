"""The transaction index of a segment (`.txnindex`): the transactions whose abort markers lie in it.

An entry is 34 bytes. The file is neither mapped nor preallocated, and is made when the first abort is indexed. Readers
skip records of aborted transactions themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Lock
from typing import TYPE_CHECKING, Self

from storage.errors import CorruptIndexError, InvalidIndexEntryError
from storage.segment.index.entries import TRANSACTION_ENTRY as _ENTRY
from storage.segment.index.entries import TRANSACTION_ENTRY_VERSION as _VERSION
from storage.segment.index.entries import AbortedTransaction
from storage.segment.index.loaded import Index, IndexReader
from storage.segment.index.zero_tail import used_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Directory, WritableFile


class TransactionIndex(Index, ABC):
    """The aborted transactions of one segment, their markers ascending. One thread may write while any number read.

    Readers confirm entries by the log's batches; `confirmed_count` is the number of those that need that no more.
    """

    entry_bytes = _ENTRY.size
    zeros_may_lead = False
    confirmed_count = 0

    @abstractmethod
    def _used(self) -> bytes:
        """Return all entries."""

    @abstractmethod
    def _last(self) -> bytes | bytearray:
        """Return the last entry, empty if there is none."""

    @property
    def entries_count(self) -> int:
        """The number of aborted transactions."""
        with self._lock:
            return len(self._used()) // _ENTRY.size

    @property
    def last_offset(self) -> int | None:
        """The offset of the last marker; None if there is none."""
        with self._lock:
            return self._last_offset()

    @staticmethod
    def pack(transaction: AbortedTransaction) -> bytes:
        """Return an entry as the file holds it."""
        return _ENTRY.pack(_VERSION, *transaction)

    def aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap the offsets from `fetch_offset` up to the bound, which is excluded.

        If the second value is true, these are all; otherwise the next segment's index may have more.
        """
        found = []
        for transaction in self:
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def check(self) -> None:
        """Raise `CorruptIndexError` if an entry cannot be one, by the same tests as Kafka's own check."""
        for slot, transaction in enumerate(self):
            if transaction.last_offset < self.base_offset:
                raise CorruptIndexError(
                    f"a marker lies below the base offset {self.base_offset}",
                    path=self.path,
                    position=slot * _ENTRY.size,
                    offset=transaction.last_offset,
                )

    def __iter__(self) -> Iterator[AbortedTransaction]:
        with self._lock:
            raw = self._used()
        for slot, (version, *fields) in enumerate(_ENTRY.iter_unpack(raw)):
            if version != _VERSION:
                raise CorruptIndexError(
                    f"the entry has version {version}, and only {_VERSION} is known",
                    path=self.path,
                    position=slot * _ENTRY.size,
                )
            yield AbortedTransaction(*fields)

    def _last_offset(self) -> int | None:
        last = self._last()
        last_offset: int | None = _ENTRY.unpack(last)[3] if last else None
        return last_offset


class TransactionIndexReader(IndexReader, TransactionIndex):
    """The transaction index of a segment, for lookups only. It changes not one byte of the file."""

    def unload(self) -> None:
        """Free the memory. The next lookup reads the file again, and confirms it again."""
        super().unload()
        self.confirmed_count = 0

    def _used(self) -> bytes:
        return self._entries.used()[0]

    def _last(self) -> bytes:
        return self._entries.last()


class TransactionIndexWriter(TransactionIndex):
    """A transaction index whose file this object alone writes, and makes with the first entry."""

    def __init__(self, directory: Directory, name: str, base_offset: int) -> None:
        super().__init__(directory.path_of(name), base_offset)
        self._directory = directory
        self._name = name
        self._file: WritableFile | None = None
        self._is_named_on_disk = True
        self._closing_lock = Lock()  # taken before the other: no closed file is flushed, and no flush stops readers
        self._entries = bytearray()

    @classmethod
    def open(cls, directory: Directory, name: str, base_offset: int) -> Self:
        """Open the file if there is one; cut off an incomplete last entry, and zeros after the last."""
        index = cls(directory, name, base_offset)
        if directory.status(name) is None:
            return index
        file = directory.open_writing(name)
        try:
            used_bytes = used_slots(file, file.size_bytes() // _ENTRY.size, _ENTRY.size) * _ENTRY.size
            index._entries = bytearray(file.read_at(0, used_bytes))
            if file.size_bytes() > used_bytes:
                file.truncate(used_bytes)
        except BaseException:
            file.close()
            raise
        index._file = file
        return index

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose marker lies above all others, or raise `InvalidIndexEntryError`."""
        with self._lock:
            entries, last_offset = self._entries, self._last_offset()
            if last_offset is not None and transaction.last_offset <= last_offset:
                raise InvalidIndexEntryError(
                    f"the marker is not above the last one, {last_offset}",
                    path=self.path,
                    offset=transaction.last_offset,
                )
            if self._file is None:
                self._is_named_on_disk = False
                self._file = self._directory.open_writing(self._name, create=True)
            entry = self.pack(transaction)
            self._file.write_at(len(entries), [entry])
            entries += entry

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose markers lie at or above the offset."""
        kept = 0
        for transaction in self:
            if transaction.last_offset >= offset:
                break
            kept += 1
        with self._lock:
            self._cut(kept * _ENTRY.size)

    def clear(self) -> None:
        """Drop every entry. The file, if there is one, stays."""
        with self._lock:
            self._cut(0)

    def flush(self) -> None:
        """Return when the entries and the file's name are on disk. Reading and appending go on meanwhile."""
        with self._closing_lock:
            if self._file is not None and not self._file.is_resting:
                self._file.sync()
                if not self._is_named_on_disk:
                    self._directory.sync()
                    self._is_named_on_disk = True

    def rest(self) -> None:
        """Close the descriptor until `wake`; everything is on disk already."""
        with self._closing_lock, self._lock:
            if self._file is not None:
                self._file.rest()

    def wake(self) -> None:
        """Open the file for appends again."""
        with self._closing_lock, self._lock:
            if self._file is not None:
                self._file.wake()

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with self._closing_lock, self._lock:
            if self._file is not None:
                self._file.close()

    def _used(self) -> bytes:
        return bytes(self._entries)

    def _last(self) -> bytearray:
        return self._entries[-_ENTRY.size :]

    def _cut(self, size_bytes: int) -> None:
        if self._file is not None and size_bytes < len(self._entries):
            self._file.truncate(size_bytes)
            del self._entries[size_bytes:]
