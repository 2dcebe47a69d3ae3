"""What the dumps of offset and time indexes share: how they differ from the log beside them, and Kafka's sanity check.

As for the real tool, every slot up to the first that repeats the base offset is an entry: an index that was not trimmed
or written to yet begins with an entry of zeros.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from kafkafs.dump.entry_dump import Entry, SlotDump
from kafkafs.dump.file_kinds import as_printed, base_offset, beside
from kafkafs.dump.log_beside import LogBeside
from storage.errors import CorruptIndexError, StorageError
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from storage.files import Files, ReadableFile

KEPT: Final = 100_000


class IndexView(Enum):
    """The part of an index that is shown."""

    ENTRIES = "entries"  # which are compared with the log as well
    COMPARISON = "comparison"  # only what differs from the log
    SANITY = "sanity"  # only whether the index passes Kafka's own check


class Mismatches:
    """One kind of difference between an index and its log: pairs of what it says and should say; the last are kept."""

    def __init__(self, heading: str, row: str, *, last_first: bool = False) -> None:
        self._heading = heading
        self._row = row
        self._last_first = last_first
        self._total = 0
        self._kept: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def add(self, said: int, found: int) -> None:
        """Add a pair."""
        self._total += 1
        self._kept.append((said, found))

    def report(self) -> Iterator[str]:
        """Yield the lines that the real tool prints on standard error; none without a difference."""
        if self._total:
            yield self._heading
        for said, found in reversed(self._kept) if self._last_first else self._kept:
            yield self._row.format(said, found)
        if self._total > len(self._kept):
            yield f"  and {self._total - len(self._kept)} more before these"


class IndexDump(SlotDump):
    """One index's dump, whose name must have a base offset.

    A batch of the log, or the entries of the offset index, may need `limit_bytes` in memory.
    """

    def __init__(self, files: Files, file: ReadableFile, form: EntryForm, view: IndexView, *, limit_bytes: int) -> None:
        super().__init__(file, form)
        base = base_offset(file.path)
        assert base is not None
        self._base_offset = base
        self._files = files
        self._view = view
        self._limit_bytes = limit_bytes

    def report(self) -> Iterator[str]:
        """Yield the mismatches in the real tool's words, and the bytes at the end."""
        for mismatches in self._mismatches():
            yield from mismatches.report()
        yield from super().report()

    def _parts(self) -> Iterator[Entry | StorageError]:
        path = beside(self._file.path, Kind.LOG)
        try:
            file = self._files.open_reading(path)
        except FileNotFoundError:
            yield CorruptIndexError(f"the log beside it, {PurePath(path).name}, is missing")
            yield from self._shown(None)
        else:
            with file:
                yield from self._shown(LogBeside(file, limit_bytes=self._limit_bytes))

    def _shown(self, log: LogBeside | None) -> Iterator[Entry | StorageError]:
        if self._is_said_to_be_empty():
            yield self._remark("empty", "is empty.")
        elif self._view is IndexView.SANITY:
            try:
                self._check()
            except StorageError as error:
                yield error
            else:
                yield self._remark("sane", "passed sanity check.")
        else:
            yield from self._entries(log)

    @abstractmethod
    def _entries(self, log: LogBeside | None) -> Iterator[Entry | StorageError]:
        """Yield the entries, compared with the log unless it is missing."""

    @abstractmethod
    def _mismatches(self) -> tuple[Mismatches, ...]:
        """Return the differences from the log, in the order of the real tool's report."""

    @abstractmethod
    def _check(self) -> None:
        """Raise `CorruptIndexError` if the index does not pass Kafka's check."""

    @abstractmethod
    def _is_said_to_be_empty(self) -> bool:
        """Return True if the dump is only a line that says that there are no entries."""

    def _located(self, error: StorageError, offset: int) -> StorageError:
        """Return the error located at its entry, unless it is an error of the log."""
        return error if error.path else error.located(path=self._file.path, position=self.position, offset=offset)

    def _is_unused(self) -> bool:
        """Return True if nothing was written yet; zeros before an entry do not mean that."""
        return not any(self._file.read_at(0, 2 * self.slot.size))

    def _unused(self) -> Entry:
        """Return the line for an unused index, whose zeros the real tool takes for an entry and dies."""
        return self._remark("unused", "has no entries yet: its slots are not used.")

    def _remark(self, kind: str, text: str) -> Entry:
        return Entry(kind, {"path": self._file.path}, f"{as_printed(self._file.path)} {text}")
