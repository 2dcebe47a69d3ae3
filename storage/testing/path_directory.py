"""Directories over files that are reached by their paths, as files in memory are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files.directory import Directory

if TYPE_CHECKING:
    from storage.files.lock import FileLock
    from storage.files.opened import FileStatus, ReadableFile, WritableFile
    from storage.files.system import Files


class PathDirectory(Directory):
    """A directory of a `Files`, which is asked by paths. There are no links to follow."""

    def __init__(self, files: Files, path: str | os.PathLike[str]) -> None:
        super().__init__(os.fspath(path))
        self._files = files

    @property
    def above(self) -> PathDirectory | None:
        """The log directory that this is a partition's directory in."""
        parent = self.path.rpartition("/")[0]
        return PathDirectory(self._files, parent) if self._files.is_root(parent) else None

    @property
    def is_of_store(self) -> bool:
        """True if new files in it are given to its owner."""
        return self._files.is_root(self.path) or self.above is not None

    def at(self, name: str) -> PathDirectory:
        """Return the directory of this name in it, which need not exist."""
        return PathDirectory(self._files, self.path_of(name))

    def open_reading(self, name: str) -> ReadableFile:
        """Open a file that exists for reading."""
        return self._files.open_reading(self.path_of(name))

    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:
        """Open a file for writing, or make an empty one."""
        return self._files.open_writing(self.path_of(name), create=create, exclusive=exclusive)

    def status(self, name: str) -> FileStatus | None:
        """Return what is known of a file or directory in it."""
        return self._files.status(self.path_of(name))

    def own_status(self) -> FileStatus | None:
        """Return what is known of its path now."""
        return self._files.status(self.path)

    def names(self) -> list[str]:
        """List the names in it, in no order."""
        return self._files.names(self.path)

    def link_target(self, name: str) -> str:
        """Return what a link in it says."""
        return self._files.link_target(self.path_of(name))

    def make_link(self, name: str, target: str) -> None:
        """Make a symbolic link."""
        self._files.make_link(self.path_of(name), target)

    def rename(self, old: str, new: str, into: Directory | None = None) -> None:
        """Rename a file or directory in it, in one step."""
        self._files.rename(self.path_of(old), (into or self).path_of(new))

    def link(self, name: str, into: Directory, new: str) -> None:
        """Give a file in it a second name."""
        self._files.link(self.path_of(name), into.path_of(new))

    def remove(self, name: str) -> None:
        """Unlink a file."""
        self._files.remove(self.path_of(name))

    def make(self, *, like: Directory | None = None) -> None:
        """Make the directory itself, in one that exists."""
        self._files.make_directory(self.path, like=like)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory in it."""
        self._files.remove_directory(self.path_of(name))

    def sync(self) -> None:
        """Return when the names in it are on disk."""
        self._files.sync_directory(self.path)

    def lock(self, name: str) -> FileLock:
        """Take the lock that a broker takes on a file."""
        return self._files.lock(self.path_of(name))

    def is_locked(self, name: str) -> bool:
        """Return True if another process has that lock."""
        return self._files.is_locked(self.path_of(name))

    def free_bytes(self) -> int:
        """Return the space that its file system has left."""
        return self._files.free_bytes(self.path)

    def check_can_give(self) -> None:
        """Raise `OwnerError` if new files in it cannot be given to its owner."""
        self._files.check_can_give(self.path)

    def access_list(self, name: str) -> bytes | None:  # noqa: ARG002 -- as in Directory
        """None: no file has one."""
        return None
