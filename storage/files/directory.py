"""One directory and the files in it, by their names.

A `Directory` is what code below a store is given instead of paths. It is not opened until something in it is asked
for, so a store has as many as it has partitions. Errors are those of `Files`, with the whole path in them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files.small_file import read_small_file, replace_file

if TYPE_CHECKING:
    from storage.errors import StorageError
    from storage.files.opened import FileLock, FileStatus, ReadableFile, WritableFile
    from storage.files.operations import Operations


class Directory:
    """A directory, which need not exist yet. Equal to another if both are of the same path. Any thread may use it.

    What it promises of each file is what `Files` promises.
    """

    __slots__ = ("_files", "path")

    def __init__(self, files: Operations, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._files = files

    @property
    def name(self) -> str:
        """Its own name, without the path to it."""
        return self.path.rpartition("/")[2]

    def at(self, name: str) -> Directory:
        """The directory of this name in it, which need not exist."""
        return Directory(self._files, self.path_of(name))

    def path_of(self, name: str) -> str:
        """The path of a file in it, as errors and messages have it."""
        return os.path.join(self.path, name)

    def open_reading(self, name: str) -> ReadableFile:
        """Open a file that exists for reading. Nothing about it changes except its access time."""
        return self._files.open_reading(self.path_of(name))

    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:
        """Open a file for writing, or make an empty one; `exclusive` refuses one that exists."""
        return self._files.open_writing(self.path_of(name), create=create, exclusive=exclusive)

    def read_small(self, name: str, refusal: type[StorageError]) -> bytes:
        """Read all of a small file; raises `refusal` if it is larger than small files are."""
        return read_small_file(self._files, self.path_of(name), refusal)

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Give a small file these contents in one step, as `replace_file` does."""
        replace_file(self._files, self.path_of(name), data, sync=sync)

    def status(self, name: str) -> FileStatus | None:
        """What the file system knows of a file or directory in it; None if there is none of that name."""
        return self._files.status(self.path_of(name))

    def own_status(self) -> FileStatus | None:
        """What the file system knows of the directory itself; None if nothing is there."""
        return self._files.status(self.path)

    def exists(self) -> bool:
        """True if the directory itself is there."""
        found = self.own_status()
        return found is not None and found.is_directory

    def names(self) -> list[str]:
        """The names in it, in no order."""
        return self._files.names(self.path)

    def links(self) -> list[str]:
        """The names of the symbolic links in it, in no order. No file is opened."""
        return self._files.links(self.path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory in it, in one step. The new name's file, if there is one, is replaced."""
        self._files.rename(self.path_of(old), self.path_of(new))

    def remove(self, name: str) -> None:
        """Unlink a file or a link. Open descriptors stay valid."""
        self._files.remove(self.path_of(name))

    def make(self, *, like: str | os.PathLike[str] | None = None) -> None:
        """Make the directory itself, in one that exists, with owner and permissions like those of `like`."""
        self._files.make_directory(self.path, like=like)

    def check_can_give(self) -> None:
        """Raise `OwnerError` where what is made in it cannot be given to its owner, as it has to be."""
        self._files.check_can_give(self.path)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory in it."""
        self._files.remove_directory(self.path_of(name))

    def sync(self) -> None:
        """Return when the names in it are on disk."""
        self._files.sync_directory(self.path)

    def lock(self, name: str) -> FileLock:
        """Take the lock that a broker takes on a file; raises `BlockingIOError` if another process has it."""
        return self._files.lock(self.path_of(name))

    def is_locked(self, name: str) -> bool:
        """True if another process has that lock. The process that has it must not ask: it would lose the lock."""
        return self._files.is_locked(self.path_of(name))

    def free_bytes(self) -> int:
        """How much its file system has left for this user."""
        return self._files.free_bytes(self.path)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Directory) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Directory({self.path!r})"
