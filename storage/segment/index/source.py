"""The file of an index that is only read: looked at and opened when entries are needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from storage.files import Files, FileStatus, ReadableFile


class IndexSource(Protocol):
    """The file of an index, which may not be there. Both answers are about the same index, whatever it is called."""

    @property
    def path(self) -> str:
        """Its path now, or the last one that it had."""

    def status(self) -> FileStatus | None:
        """Return the file system's answer about it, None if there is none."""

    def open(self) -> ReadableFile | None:
        """The file, to be closed by who opens it; None if there is none."""


class PathSource:
    """Whatever file is at a path."""

    def __init__(self, files: Files, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._files = files

    def status(self) -> FileStatus | None:
        """Return the file system's answer about it, None if there is none."""
        return self._files.status(self.path)

    def open(self) -> ReadableFile | None:
        """The file, to be closed by who opens it; None if there is none."""
        try:
            return self._files.open_reading(self.path)
        except FileNotFoundError:
            return None
