"""Directories and files that are to be removed, each when its time has come.

A partition that is deleted, and a segment that is deleted or replaced, is renamed at once and removed later, so that
those who read it can finish. Nothing happens here by itself: somebody asks what is due.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from storage.files import Files


class Removals:
    """Files and directories to be removed when they are due. After a crash they are found again by their names.

    Any thread may call anything.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = Lock()  # held while it is looked up what is due
        self._directories: dict[Path, int] = {}
        self._doomed_files: dict[Path, int] = {}

    def add(self, directory: Path, due_ms: int) -> None:
        """Have a directory removed at that time or later; what was said of it before stays."""
        with self._lock:
            self._directories.setdefault(directory, due_ms)

    def add_files(self, paths: Iterable[Path], due_ms: int) -> None:
        """Have files removed at that time or later; what was said of earlier files of the same names is void."""
        with self._lock:
            self._doomed_files.update(dict.fromkeys(paths, due_ms))

    def due(self, now_ms: int) -> list[Path]:
        """Those whose time has come."""
        with self._lock:
            doomed = {**self._directories, **self._doomed_files}
        return [path for path, due_ms in doomed.items() if due_ms <= now_ms]

    def remove_files(self) -> None:
        """Remove all files now, as no reader is left; raises the first error after all else is done."""
        with self._lock:
            paths = list(self._doomed_files)
        with ExitStack() as stack:
            for path in reversed(paths):
                stack.callback(self.remove, path)

    def remove(self, path: Path) -> None:
        """Remove a file, or a directory and all that is in it, if it is there. Links are removed, and never followed.

        After an `OSError` it is still to be removed, less what is gone.
        """
        with suppress(FileNotFoundError):
            self._remove(path)
        with self._lock:
            self._directories.pop(path, None)
            self._doomed_files.pop(path, None)

    def _remove(self, path: Path) -> None:
        """Unlink first and ask later: a link to a directory goes by itself, and what it leads to stays."""
        try:
            self._files.remove(path)
        except IsADirectoryError:
            for name in self._files.names(path):
                self._remove(path / name)
            self._files.remove_directory(path)
