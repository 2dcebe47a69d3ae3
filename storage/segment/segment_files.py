"""The files of one segment, which readers find through renames.

A writer that takes a segment out of a log renames its files to `.deleted`, and another segment may have their names
right after. It publishes the names here before and after renaming. Readers check them again after opening a file, and
retry, so that they go on with the files that they meant. No reader waits for a lock.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from errno import ENOENT
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import ref

from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files import Directory, FileStatus, ReadableFile
    from storage.segment.index.loaded import IndexSource
    from storage.segment.names import SegmentNames

# Where a file may be, in the order in which it is looked for.
_IN_PLACE: Final = (FileSuffix.LIVE,)
_ON_ITS_WAY: Final = (FileSuffix.LIVE, FileSuffix.DELETED)
_DELETED: Final = (FileSuffix.DELETED,)
_GONE: Final = ()

HELD_LOGS_MAX: Final = 64
"""The logs that a process holds open for lookups, of all stores together."""


class SegmentFiles:
    """The files of a segment that bear these names, to begin with.

    One thread at a time renames them, by `delete`; any number look at them. A file that was deleted and then removed is
    a `FileNotFoundError` to those who want the log, and to those who ask for an index as well, of which there may have
    been none otherwise. But a log that `lend` gives is there, whatever became of its names, with the indexes that are.
    """

    __slots__ = ("__weakref__", "_held", "_names", "_suffixes", "directory", "lend")

    def __init__(self, directory: Directory, names: SegmentNames) -> None:
        self.directory = directory
        self._names = names
        self._suffixes: tuple[FileSuffix, ...] = _IN_PLACE
        self._held: HeldLog | None = None
        self.lend: Callable[[], ReadableFile | None] = _nothing

    def name(self, kind: Kind) -> str:
        """Return the name that the file of this kind has, or is about to have."""
        return self._name(kind, FileSuffix.DELETED if self._suffixes is not _IN_PLACE else FileSuffix.LIVE)

    def path(self, kind: Kind) -> str:
        """Return the path of the file of that name."""
        return self.directory.path_of(self.name(kind))

    def status(self, kind: Kind) -> FileStatus | None:
        """Return the file system's answer about the file of this kind, None if there is none."""
        while True:
            suffixes = self._suffixes
            looks = (self.directory.status(self._name(kind, suffix)) for suffix in suffixes)
            found = next((status for status in looks if status is not None), None)
            if suffixes is self._suffixes:
                return found

    def open_log(self) -> ReadableFile:
        """The log, to be closed by who opens it."""
        file = self.lend() or self._open(Kind.LOG)
        if file is None:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path(Kind.LOG))
        return file

    def held_log(self) -> HeldLog:
        """The log, open for this lookup and for later ones. Only for logs that no other process deletes or replaces.

        It is closed once others are looked up, once its name changes, or by `release_log`; a lookup under way reads on.
        """
        held = self._held
        if held is None:
            held = HeldLog(self.open_log())
            self._held = held
            if self._suffixes is not _IN_PLACE:  # `delete` may have come between
                self._held = None
            _held_logs.add(self)
        return held

    def release_log(self) -> None:
        """Do not hold the log open any longer."""
        self._held = None

    def index(self, kind: Kind) -> IndexSource:
        """An index as it is read."""
        return _IndexOfSegment(self, kind)

    def open_index(self, kind: Kind) -> ReadableFile | None:
        """The index, to be closed by who opens it; None if the segment has none."""
        file = self._open(kind)
        if file is None:
            self.check_is_there()
        return file

    def check_is_there(self) -> None:
        """Raise `FileNotFoundError` if the segment was deleted and removed."""
        if self._suffixes is not _IN_PLACE and self.status(Kind.LOG) is None:
            lent = self.lend()
            if lent is not None:
                lent.close()
                return
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path(Kind.LOG))

    def delete(self) -> list[str]:
        """Give the files the suffix `.deleted`, with which they are the caller's to remove, and return their names.

        Other files may have their names afterwards. What an earlier segment with the same names has left under the new
        ones is removed first; its readers have been told by `lose`.
        """
        for kind in SEGMENT_KINDS:
            with suppress(FileNotFoundError):
                self.directory.remove(self._name(kind, FileSuffix.DELETED))
        self._suffixes = _ON_ITS_WAY
        self._held = None
        renamed = []
        for kind in SEGMENT_KINDS:
            name = self._name(kind, FileSuffix.LIVE)
            if self.directory.status(name) is not None:
                renamed.append(self._name(kind, FileSuffix.DELETED))
                self.directory.rename(name, renamed[-1])
        self._suffixes = _DELETED
        return renamed

    def move(self, directory: Directory) -> None:
        """Take notice that the files were moved to another directory, under the same names."""
        self.directory, self._held = directory, None

    def lose(self) -> None:
        """The files are gone for good, or are about to be, and others may have any of their names."""
        self._suffixes = _GONE
        self._held = None

    def _open(self, kind: Kind) -> ReadableFile | None:
        while True:
            suffixes = self._suffixes
            file = None
            for suffix in suffixes:
                try:
                    file = self.directory.open_reading(self._name(kind, suffix))
                except FileNotFoundError:
                    continue
                break
            if suffixes is self._suffixes:
                return file
            if file is not None:
                file.close()

    def _name(self, kind: Kind, suffix: FileSuffix) -> str:
        if suffix is FileSuffix.LIVE:
            return self._names.name(kind)
        return str(FileName(self._names.base_offset, kind, suffix))


class HeldLog:
    """A log that is open for as long as a lookup or its segment has this object."""

    __slots__ = ("file",)

    def __init__(self, file: ReadableFile) -> None:
        self.file = file

    def __del__(self) -> None:
        self.file.close()


class _HeldLogs:
    """The segments whose logs were opened last to be held."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: deque[ref[SegmentFiles]] = deque()

    def add(self, holder: SegmentFiles) -> None:
        """Count one more, and release the log that has been held longest if there are too many."""
        with self._lock:
            self._holders.append(ref(holder))
            longest = self._holders.popleft()() if len(self._holders) > HELD_LOGS_MAX else None
        if longest is not None:
            longest.release_log()


_held_logs: Final = _HeldLogs()


def _nothing() -> None:
    return None


class _IndexOfSegment:
    """An index of a segment, under whatever name."""

    def __init__(self, files: SegmentFiles, kind: Kind) -> None:
        self._files = files
        self._kind = kind

    @property
    def path(self) -> str:
        return self._files.path(self._kind)

    def status(self) -> FileStatus | None:
        status = self._files.status(self._kind)
        if status is None:
            self._files.check_is_there()
        return status

    def open(self) -> ReadableFile | None:
        return self._files.open_index(self._kind)
