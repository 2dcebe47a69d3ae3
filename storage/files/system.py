"""Files reached through the directories that a user named: the operating system's, and those of object stores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files.entered import Manner
from storage.files.object_directory import ObjectDirectory
from storage.files.real import RealDirectory
from storage.files.uris import is_in_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.errors import StorageError
    from storage.files.directory import Directory
    from storage.files.lock import FileLock
    from storage.files.opened import FileStatus, ReadableFile, WritableFile


class Files:
    """The operating system's files. `directory` opens a directory that a user named.

    Links in the place of partitions' directories are followed if `follows_partitions`. What is read leaves the page
    cache as it was if it `spares_cache`.

    The other methods take paths. Below a root, which is a directory given to `add_root`, they reach the same files as
    `directory`; elsewhere the last name of a path is no link.
    """

    _manner = Manner()
    _of_no_store = Manner(is_of_store=False)
    _roots: Mapping[str, Directory] = {}

    def __init__(self, *, follows_partitions: bool = False, spares_cache: bool = False) -> None:
        if follows_partitions or spares_cache:
            self._manner = Manner(follows_partitions=follows_partitions, spares_cache=spares_cache)

    def directory(self, path: str | os.PathLike[str]) -> Directory:
        """Return the directory of a path, which need not exist."""
        return self._opened(path)

    def partition(self, path: str | os.PathLike[str]) -> Directory:
        """Return a partition's directory by its path. Each use enters it from the log directory, by its name."""
        log_dir, name = os.path.split(path)
        return self.directory(log_dir).at(name)

    def _opened(self, path: str | os.PathLike[str]) -> Directory:
        name = os.fspath(path)
        return self._below_root(name) or _directory(name, self._manner)

    def add_root(self, directory: str | os.PathLike[str]) -> Directory:
        """Add a directory that a user named, and return it: it may be a link, and no link is followed below it.

        One that is kept open is returned again.
        """
        name = os.fspath(directory)
        if name not in self._roots or not self._roots[name].is_kept:
            self._roots = {**self._roots, name: _directory(name, self._manner)}
        return self.directory(name)

    def is_root(self, path: str) -> bool:
        """Return True if this directory was given to `add_root`."""
        return path in self._roots

    def _below_root(self, path: str) -> Directory | None:
        """Return the directory of a path that is a root or lies in one, None for another path."""
        if path in self._roots:
            return self._roots[path]
        parent, _, name = path.rpartition("/")
        return self._roots[parent].at(name) if parent in self._roots else None

    def parent(self, path: str | os.PathLike[str]) -> tuple[Directory, str]:
        """Return the directory of a file, and the file's name in it."""
        return self._reached(path)

    def _reached(self, path: str | os.PathLike[str]) -> tuple[Directory, str]:
        parent, slash, name = os.fspath(path).rpartition("/")
        return self._below_root(parent) or self._named(parent or slash or "."), name

    def _itself(self, path: str | os.PathLike[str]) -> Directory:
        found = self._below_root(os.fspath(path))
        if found is not None or self._of_no_store.follows_links:
            return found or self._named(path)
        parent, name = self._reached(path)
        return parent.at(name) if name else parent

    def _named(self, path: str | os.PathLike[str]) -> Directory:
        return _directory(os.fspath(path), self._of_no_store)

    def check_can_give(self, directory: str | os.PathLike[str]) -> None:
        """Raise `OwnerError` if new files in a directory cannot be given to its owner."""
        self._opened(directory).check_can_give()

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading. Nothing about it changes except its access time."""
        directory, name = self._reached(path)
        return directory.open_reading(name)

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        """Open a file for writing, or make an empty one; `exclusive` refuses one that exists."""
        directory, name = self._reached(path)
        return directory.open_writing(name, create=create, exclusive=exclusive)

    def read(self, path: str | os.PathLike[str]) -> bytes:
        """Read all of a small file."""
        with self.open_reading(path) as file:
            return file.read_at(0, file.size_bytes())

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        """Return the file system's answer about a path, None if nothing is there."""
        if os.fspath(path) in self._roots:
            return self._roots[os.fspath(path)].own_status()
        directory, name = self._reached(path)
        try:
            return directory.status(name) if name else directory.own_status()
        except FileNotFoundError:
            return None

    def names(self, directory: str | os.PathLike[str]) -> list[str]:
        """List the names in a directory, in no order."""
        return self._itself(directory).names()

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Rename a file or directory in one step. A file that has the new name is replaced."""
        directory, name = self._reached(old)
        target, new_name = self._reached(new)
        directory.rename(name, new_name, target)

    def link(self, path: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Give a file a second name, a hard link, in a directory of the same file system."""
        directory, name = self._reached(path)
        target, new_name = self._reached(new)
        directory.link(name, target, new_name)

    def make_link(self, path: str | os.PathLike[str], target: str) -> None:
        """Make a symbolic link that says `target`."""
        directory, name = self._reached(path)
        directory.make_link(name, target)

    def link_target(self, path: str | os.PathLike[str]) -> str:
        """Return what a link says, without following it."""
        directory, name = self._reached(path)
        return directory.link_target(name)

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Unlink a file, or a link. Open descriptors stay valid."""
        directory, name = self._reached(path)
        directory.remove(name)

    def make_directory(self, path: str | os.PathLike[str], *, like: str | os.PathLike[str] | None = None) -> None:
        """Make a directory in one that exists. Below a root it gets owner and permissions like those of `like`."""
        model = None if like is None else self._opened(like)
        directory, name = self._reached(path)
        directory.at(name).make(like=model)

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        """Remove an empty directory."""
        directory, name = self._reached(path)
        directory.remove_directory(name)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Return when the names in a directory are on disk."""
        (self._below_root(os.fspath(path)) or self._named(path)).sync()

    def lock(self, path: str | os.PathLike[str]) -> FileLock:
        """Take the lock that a broker takes; raises `BlockingIOError` if another process has it."""
        directory, name = self._reached(path)
        return directory.lock(name)

    def is_locked(self, path: str | os.PathLike[str]) -> bool:
        """Return True if another process has that lock. The process that has it must not ask: it would lose it."""
        directory, name = self._reached(path)
        return directory.is_locked(name)

    def free_bytes(self, path: str | os.PathLike[str]) -> int:
        """Return the space that the path's file system has left for this user."""
        return self._opened(path).free_bytes()


class NamedFiles(Files):
    """Files that a user named and that belong to no store. Links are followed."""

    _manner = Manner(follows_links=True)
    _of_no_store = Manner(is_of_store=False, follows_links=True)


class PrivateFiles(NamedFiles):
    """The same for what kafkafs keeps for a user: what is made is for that user alone."""

    _manner = _of_no_store = Manner(is_of_store=False, follows_links=True, bits=0o700)


def _directory(path: str, manner: Manner) -> Directory:
    return ObjectDirectory(path) if is_in_object_store(path) else RealDirectory(path, None, manner)


def read_small_file(files: Files, path: str | os.PathLike[str], refusal: type[StorageError], bytes_max: int) -> bytes:
    """Read the file of a path as `Directory.read_small` does."""
    directory, name = files.parent(path)
    return directory.read_small(name, refusal, bytes_max)


def replace_file(files: Files, path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Replace the file of a path as `Directory.replace` does."""
    directory, name = files.parent(path)
    directory.replace(name, data, sync=sync)
