"""Real files whose every operation, also one on a directory, goes by a method with a path: for tests to override."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files import Files
from storage.testing.path_directory import PathDirectory

if TYPE_CHECKING:
    from storage.files import Directory


class PathFiles(Files):
    """The operating system's files. Subclasses see each operation in the method of `Files` that they override."""

    def directory(self, path: str | os.PathLike[str]) -> Directory:
        return PathDirectory(self, path)

    def parent(self, path: str | os.PathLike[str]) -> tuple[Directory, str]:
        parent, name = os.path.split(path)
        return PathDirectory(self, parent), name
