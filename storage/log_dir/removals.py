"""Directories and files that are to be removed, each when its time has come.

A partition that is deleted, and a segment that is deleted or replaced, is renamed at once and removed later, so that
those who read it can finish. Nothing happens here by itself: the caller asks what is due.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.files import Directory


class Doomed(NamedTuple):
    """A file, or a directory and all that is in it, that is to be removed from a directory."""

    directory: Directory
    name: str

    @property
    def path(self) -> str:
        """Its path."""
        return self.directory.path_of(self.name)

    def remove(self) -> None:
        """Remove it, however deep it is. Links are removed, and never followed.

        Raises `FileNotFoundError` if it is not there.
        """
        self.directory.remove_tree(self.name)


class Removals:
    """Files and directories to be removed when they are due. After a crash they are found again by their names.

    Any thread may call anything.
    """

    def __init__(self) -> None:
        self._lock = Lock()  # held while it is looked up what is due
        self._directories: dict[Doomed, int] = {}
        self._doomed_files: dict[Doomed, int] = {}

    def add(self, doomed: Doomed, due_ms: int) -> None:
        """Schedule the removal of a directory; an earlier time for it stays."""
        with self._lock:
            self._directories.setdefault(doomed, due_ms)

    def add_files(self, doomed: Iterable[Doomed], due_ms: int) -> None:
        """Schedule the removal of files; an earlier time for files of the same names is dropped."""
        with self._lock:
            self._doomed_files.update(dict.fromkeys(doomed, due_ms))

    def due(self, now_ms: int) -> list[Doomed]:
        """Return those whose time has come."""
        with self._lock:
            doomed = {**self._directories, **self._doomed_files}
        return [each for each, due_ms in doomed.items() if due_ms <= now_ms]

    def remove_files(self) -> None:
        """Remove all files now, as no reader is left; raises the first error after all else is done."""
        with self._lock:
            doomed = list(self._doomed_files)
        with ExitStack() as stack:
            for each in reversed(doomed):
                stack.callback(self.remove, each)

    def remove(self, doomed: Doomed) -> None:
        """Remove it as `Doomed.remove` does, if it is there.

        After an `OSError` it is still to be removed, less what is gone.
        """
        with suppress(FileNotFoundError):
            doomed.remove()
        with self._lock:
            self._directories.pop(doomed, None)
            self._doomed_files.pop(doomed, None)
