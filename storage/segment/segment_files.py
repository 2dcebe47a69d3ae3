"""The files of one segment, which readers find through renames.

A writer that deletes a segment renames its files to `.deleted`, and another segment may have their names right after.
It publishes the names here before and after renaming. Readers check them again after opening a file, and retry, so that
they read the files that they meant. No reader waits for a lock.
"""

from __future__ import annotations

import os
from contextlib import suppress
from errno import ENOENT
from typing import TYPE_CHECKING, Final

from storage.files import HeldFile, LastUsed
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files import Directory, FileStatus, ReadableFile
    from storage.segment.index.loaded import IndexSource
    from storage.segment.names import SegmentNames

# The names that a file may have, in the order in which readers try them.
_IN_PLACE: Final = (FileSuffix.LIVE,)
_ON_ITS_WAY: Final = (FileSuffix.LIVE, FileSuffix.DELETED)
_DELETED: Final = (FileSuffix.DELETED,)
_GONE: Final = ()

HELD_LOGS_MAX: Final = 64
"""The number of logs that a process holds open for lookups, of all stores together."""


class SegmentFiles:
    """The files of a segment, with these names until they are renamed.

    One thread at a time renames them, by `delete`; any number read them. Once the files are deleted and removed,
    opening the log or an index raises `FileNotFoundError`; otherwise a missing index is one that the segment never had.
    But a log that `lend` gives is there, even without its names, with the indexes that remain.
    """

    __slots__ = ("__weakref__", "_held", "_names", "_suffixes", "directory", "lend")

    def __init__(self, directory: Directory, names: SegmentNames) -> None:
        self.directory = directory
        self._names = names
        self._suffixes: tuple[FileSuffix, ...] = _IN_PLACE
        self._held: HeldFile | None = None
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
        """Open the log. The caller closes it."""
        file = self.lend() or self._open(Kind.LOG)
        if file is None:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path(Kind.LOG))
        return file

    def held_log(self) -> HeldFile:
        """Return the log, open for this and later lookups. Only for logs that no other process deletes or replaces.

        It is closed after lookups in other logs, on a rename, or by `release_log`; a lookup under way reads on.
        """
        held = self._held
        if held is None:
            held = HeldFile(self.open_log())
            self._held = held
            if self._suffixes is not _IN_PLACE:  # `delete` may have run meanwhile
                self._held = None
            _held_logs.add(self)
        return held

    def release_log(self) -> None:
        """Stop holding the log open."""
        self._held = None

    def index(self, kind: Kind) -> IndexSource:
        """Return an index for reading."""
        return _IndexOfSegment(self, kind)

    def open_index(self, kind: Kind) -> ReadableFile | None:
        """Open the index, which the caller closes; None if the segment has none."""
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
        """Give the files the suffix `.deleted` and return their names. The caller removes them.

        Other files may have their names afterwards. Files of the new names, left of an earlier segment, are removed
        first; `lose` has marked them as gone for that segment's readers.
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
        """Record that the files were moved to another directory, under the same names."""
        self.directory, self._held = directory, None

    def lose(self) -> None:
        """Record that the files are gone, or are about to be, and that other files may have any of their names."""
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


_held_logs: Final[LastUsed[SegmentFiles]] = LastUsed(HELD_LOGS_MAX, SegmentFiles.release_log)


def _nothing() -> None:
    return None


class _IndexOfSegment:
    """An index of a segment, under the name that it has at the time."""

    __slots__ = ("_files", "_kind")

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
