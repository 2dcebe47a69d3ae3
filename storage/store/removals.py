"""Directories that are to be removed, each when its time has come.

A partition that is deleted is renamed at once and removed later, so that those who read it can finish. Nothing happens
here by itself: somebody asks what is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Files


class Removals:
    """Directories and when they are due; what a crash forgets is found again by its name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._due_ms: dict[Path, int] = {}

    def add(self, directory: Path, due_ms: int) -> None:
        """Have a directory removed at that time or later; what was said of it before stays."""
        self._due_ms.setdefault(directory, due_ms)

    def due(self, now_ms: int) -> list[Path]:
        """Those whose time has come."""
        return [directory for directory, due_ms in self._due_ms.items() if due_ms <= now_ms]

    def remove(self, directory: Path) -> None:
        """Remove a directory and all that is in it. After an `OSError` it is still to be removed, less what is gone."""
        self._remove_tree(directory)
        self._due_ms.pop(directory, None)

    def _remove_tree(self, directory: Path) -> None:
        try:
            names = self._files.names(directory)
        except FileNotFoundError:
            return
        for name in names:
            path = directory / name
            status = self._files.status(path)
            if status is not None and status.is_directory:
                self._remove_tree(path)
            else:
                self._files.remove(path)
        self._files.remove_directory(directory)
