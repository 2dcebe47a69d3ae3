"""Every operation on files that storage performs, as objects that callers are given.

Code that touches files takes a `Files` and asks it, so that a test can hand over one that fails, tears writes or
loses what was not synced. Errors are the operating system's own `OSError`s, always with the path in them.

What a call promises is what POSIX promises: written data is visible to every reader at once and survives the death of
the process; it survives a loss of power after `sync`, and a name does after its directory was synced.
"""

from __future__ import annotations

import fcntl
import os
import stat

from storage.files.directory import Directory
from storage.files.making import check_can_give, made_file, make_directory
from storage.files.opened import FileLock, FileStatus, ReadableFile, WritableFile, located
from storage.files.unfollowed import open_directory, open_file, placed, status_of


class Files:
    """The operating system's files.

    No symbolic link is followed, but those that lead to a root and the root itself: a directory that a user named, such
    as a log directory. A caller that is given one says so, with `add_root`. What has a link in its place raises
    `SymbolicLinkError`, and so does what lies in a directory below a root that is a link.
    """

    _roots: frozenset[str] = frozenset()

    def add_root(self, directory: str | os.PathLike[str]) -> None:
        """Say that a user named this directory: it may be a link, and below it nothing is reached through one."""
        if os.fspath(directory) not in self._roots:
            self._roots |= {os.fspath(directory)}

    def directory(self, path: str | os.PathLike[str]) -> Directory:
        """The directory of this path, which need not exist."""
        return Directory(self, path)

    def check_can_give(self, directory: str | os.PathLike[str]) -> None:
        """Raise `OwnerError` where what is made in a directory cannot be given to its owner, as it has to be."""
        check_can_give(os.fspath(directory))

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading; nothing about it changes, its access time aside."""
        return ReadableFile(os.fspath(path), open_file(os.fspath(path), os.O_RDONLY, self._roots))

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        """Open a file for writing where it stands, or make an empty one; `exclusive` refuses one that exists.

        Below a root a new file has the owner and the permissions that `storage.files.ownership` says.
        """
        name = os.fspath(path)
        if create:
            descriptor = made_file(self, name, self._roots, exclusive=exclusive)
        else:
            descriptor = open_file(name, os.O_RDWR, self._roots)
        return WritableFile(name, descriptor, self._roots)

    def read(self, path: str | os.PathLike[str]) -> bytes:
        """All of a small file."""
        with self.open_reading(path) as file:
            return file.read_at(0, file.size_bytes())

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        """What the file system knows of the path; None if nothing is there."""
        try:
            found = status_of(os.fspath(path), self._roots)
        except FileNotFoundError:
            return None
        return FileStatus(
            found.st_size,
            found.st_mtime_ns // 1_000_000,
            stat.S_ISDIR(found.st_mode),
            (found.st_dev, found.st_ino),
            found.st_blocks,
            stat.S_ISLNK(found.st_mode),
            found.st_uid,
            found.st_gid,
            found.st_mode & 0o777,
        )

    def names(self, directory: str | os.PathLike[str]) -> list[str]:
        """The names in a directory, in no order."""
        descriptor = open_directory(os.fspath(directory), self._roots)
        try:
            return os.listdir(descriptor)
        except OSError as error:
            raise located(error, os.fspath(directory)) from None
        finally:
            os.close(descriptor)

    def links(self, directory: str | os.PathLike[str]) -> list[str]:
        """The names of the symbolic links in a directory, in no order; no file is looked at for it."""
        descriptor = open_directory(os.fspath(directory), self._roots)
        try:
            with os.scandir(descriptor) as entries:
                return [entry.name for entry in entries if entry.is_symlink()]
        except OSError as error:
            raise located(error, os.fspath(directory)) from None
        finally:
            os.close(descriptor)

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Give a file or directory another name, in one step and in place of what has that name."""
        with (
            placed(os.fspath(old), self._roots) as (source, source_place),
            placed(os.fspath(new), self._roots) as (target, target_place),
        ):
            os.replace(source, target, src_dir_fd=source_place, dst_dir_fd=target_place)

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Take a file's name away, or a link's; those who have the file open keep it."""
        with placed(os.fspath(path), self._roots) as (name, place):
            os.unlink(name, dir_fd=place)

    def make_directory(self, path: str | os.PathLike[str], *, like: str | os.PathLike[str] | None = None) -> None:
        """Make a directory in one that exists; below a root, with the owner and the permissions of one it is `like`."""
        make_directory(self, os.fspath(path), self._roots, like)

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        """Remove an empty directory."""
        with placed(os.fspath(path), self._roots) as (name, place):
            os.rmdir(name, dir_fd=place)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Return when the names in a directory are on disk."""
        descriptor = open_directory(os.fspath(path), self._roots, may_be_above=True)  # a store may be made in it
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise located(error, os.fspath(path)) from None
        finally:
            os.close(descriptor)

    def lock(self, path: str | os.PathLike[str]) -> FileLock:
        """Take the lock that a broker takes, or raise `BlockingIOError` if somebody has it."""
        name = os.fspath(path)
        return FileLock(name, made_file(self, name, self._roots))

    def is_locked(self, path: str | os.PathLike[str]) -> bool:
        """Whether another process has that lock now.

        Whoever has it must not ask: a process that closes a file gives up all locks that it has on it.
        """
        try:
            descriptor = open_file(os.fspath(path), os.O_RDONLY, self._roots)
        except FileNotFoundError:
            return False
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def free_bytes(self, path: str | os.PathLike[str]) -> int:
        """How much the file system of the path has left for us."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


class _Everything(frozenset[str]):
    """A set with every path in it."""

    def __contains__(self, path: object) -> bool:
        return True


class NamedFiles(Files):
    """The operating system's files that a user named and that are no store's: links are followed."""

    _roots = _Everything()
