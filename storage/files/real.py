"""The operating system's directories: opened from the log directory down, without following a link."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from storage.errors import SymbolicLinkError
from storage.files.entered import Entered, Held, Manner, path_from_root
from storage.files.listed import ListedDirectory, read_access_list
from storage.files.lock import FileLock, is_locked_elsewhere
from storage.files.making import settle, undoing
from storage.files.opened import FileStatus, ReadableFile, WritableFile
from storage.files.ownership import ROOT_UID, Terms, terms_of_directory, terms_of_file
from storage.files.passing import PassingFile
from storage.files.turns import give_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files.directory import Directory

_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINKED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
_UNOPENED: Final = frozenset({errno.ENXIO, errno.ENODEV, errno.EACCES})
"""What opening sockets and devices ends with."""


class RealDirectory(ListedDirectory):
    """A directory of the operating system.

    Without a directory `above` it is one that a user named: each use opens it by its path, so that a reader sees a
    directory that replaces it, and keeps no file system from being unmounted. While a lock in it is held it stays open,
    so that a writer writes to the directory that it locked, and to no other. A relative path stays what it was when
    the object was made. Links in it are followed only if `follows_links`, as is right for files that a user names and
    that belong to no store.
    """

    holder: Held | None = None  # other threads go by the path meanwhile
    _kept = -1  # a descriptor, only of a log directory
    _locks = 0

    def __init__(
        self,
        path: str | os.PathLike[str],
        above: RealDirectory | None = None,
        manner: Manner = Manner(),  # noqa: B008 -- it never changes
    ) -> None:
        super().__init__(os.fspath(path))
        self._above = above
        self.manner = manner
        is_in_log_dir = above is not None and above.above is None  # then it may be a partition's, and a link
        self._is_followed = manner.follows_links or (manner.follows_partitions and is_in_log_dir)
        self._absolute = path_from_root(self.path) if above is None else above.absolute(self.path)
        # Held while the kept descriptor is duplicated, opened or closed.
        self.keeping: Lock = Lock() if above is None else above.keeping

    def __reduce__(self) -> tuple[object, ...]:
        return RealDirectory, (self.path, self._above, self.manner)

    @property
    def above(self) -> RealDirectory | None:
        """The log directory that holds this partition's directory."""
        return self._above

    @property
    def is_of_store(self) -> bool:
        """True if new files in it are given to its owner."""
        return self.manner.is_of_store

    @property
    def follows_partitions(self) -> bool:
        """True if a link in it that leads to a directory is one of a partition."""
        return self.manner.follows_partitions and self._above is None

    def at(self, name: str) -> RealDirectory:
        """Return the directory of this name in it, which need not exist."""
        return RealDirectory(self.path_of(name), self, self.manner)

    def limited(self, bits: int) -> RealDirectory:
        """Return the same directory; what is made by way of the result has no permission bits but some of these."""
        return RealDirectory(self.path, self._above, self.manner._replace(bits=bits))

    def absolute(self, path: str) -> str:
        """Return the path of something in it from the root of the file system; the path is below its own."""
        return path if self._absolute is self.path else os.path.join(self._absolute, path.rpartition("/")[2])

    # Reaching files in it

    def entered(self, name: str = "") -> Entered:
        """Open the directory for a block that uses `name` in it, and yield the descriptor.

        The descriptor stays on the same directory while the block runs, even if its path changes. An `OSError` leaves
        the block with the path in it, and says which link is in the way.
        """
        return Entered(self, name)

    def held(self) -> Held:
        """Let this thread use the files of one directory in a block, without going to it by its path each time."""
        return Held(self)

    def enter(self) -> int:
        """Return a descriptor of the directory, which the caller closes."""
        if self._above is None:
            with self.keeping:
                if self._kept >= 0:
                    return os.dup(self._kept)
            return os.open(self._absolute, _PLACE)
        flags = _PLACE if self._is_followed else _PLACE | os.O_NOFOLLOW
        if self._above.is_reached_by_path:
            return os.open(self._absolute, flags)
        place = self._above.enter()
        try:
            return os.open(self.name, flags, dir_fd=place)
        finally:
            os.close(place)

    @property
    def is_reached_by_path(self) -> bool:
        """True if a user named the directory and it is not kept open: then one call reaches what is in it."""
        return self._above is None and self._kept < 0

    def _keep(self) -> None:
        """Keep a directory that a user named open until `_let_go` was called as often."""
        with self.keeping:
            if self._locks == 0 and self._above is None:
                with self._told():
                    self._kept = os.open(self._absolute, _PLACE)
            self._locks += 1

    def _let_go(self) -> None:
        with self.keeping:
            self._locks -= 1
            if self._locks == 0 and self._kept >= 0:
                os.close(self._kept)
                self._kept = -1

    def is_in_place(self) -> bool:
        """Return False if its path leads to another directory than the one that is kept open, or to none."""
        with self.keeping:
            if self._kept < 0:
                return True
            kept = os.fstat(self._kept)
        try:
            return os.path.samestat(os.stat(self._absolute), kept)
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextmanager
    def _told(self, name: str = "") -> Iterator[None]:
        """Raise errors of a block with the path that the user named, or that of a name in it."""
        try:
            yield
        except OSError as error:
            raise self.explained(error, self.path_of(name) if name else self.path) from None

    def explained(self, error: OSError, path: str) -> OSError:
        """Return the error with a path in it, or one that names the link which is in the way."""
        if error.errno in _LINKED and not self.manner.follows_links:
            below: list[str] = [] if path == self.path else [path]
            directory = self
            while directory._above is not None:
                if not directory._is_followed:
                    below.append(directory.path)
                directory = directory._above
            for each in reversed(below):
                if os.path.islink(each):
                    return SymbolicLinkError(each)
        error.filename = path
        return error

    def open_file(self, name: str, flags: int, mode: int = 0) -> int:
        """Open a regular file and return its descriptor."""
        give_way()
        with self.entered(name) as place:
            # Opening a FIFO would wait for its other end.
            flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            flags |= 0 if self.manner.follows_links else os.O_NOFOLLOW
            try:
                descriptor = os.open(name, flags, mode, dir_fd=place)
            except OSError as error:
                if error.errno in _UNOPENED:
                    self._check_is_file(name, os.stat(name, dir_fd=place, follow_symlinks=False))
                raise
            try:
                self._check_is_file(name, os.fstat(descriptor))
            except OSError:
                os.close(descriptor)
                raise
        return descriptor

    def _check_is_file(self, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            refusal = self.refusal(name, FileStatus.of(found))
            if refusal is not None:
                raise refusal

    def _made_file(self, name: str, *, exclusive: bool = False) -> int:
        """Open a file, made if it does not exist, and return its descriptor; `exclusive` refuses one that exists."""
        while True:
            if not exclusive:
                with suppress(FileNotFoundError):
                    return self.open_file(name, os.O_RDWR)
            terms = terms_of_file(self, name, os.geteuid()).limited(self.manner.bits)
            try:
                descriptor = self.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, terms.making_mode)
            except FileExistsError:  # another process was faster; it may remove the file again
                if exclusive:
                    raise
                continue
            with undoing(descriptor, self.path_of(name), lambda: self.remove(name)):
                settle(descriptor, self.path_of(name), terms)
            return descriptor

    def _made_in(self, above: RealDirectory, like: Directory | None) -> None:
        terms = terms_of_directory(above, like, os.geteuid()).limited(self.manner.bits)
        with above.entered(self.name) as place:
            os.mkdir(self.name, terms.making_mode, dir_fd=place)
        if not above.is_of_store:
            return
        with self.listed() as opened:
            descriptor = os.dup(opened)
        with undoing(descriptor, self.path, lambda: above.remove_directory(self.name)):
            if os.listdir(descriptor):  # another directory took its place, and must not be given away
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
            settle(descriptor, self.path, terms)
        os.close(descriptor)

    @contextmanager
    def listed(self) -> Iterator[int]:
        """Yield a descriptor of the directory with which its names can be read and synced."""
        with self.entered() as place:
            descriptor = os.open(".", _LISTED, dir_fd=place)
            try:
                if os.fstat(descriptor).st_nlink == 0:  # it was removed, and its names are gone with it
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
                yield descriptor
            finally:
                os.close(descriptor)

    # Files

    def open_reading(self, name: str) -> ReadableFile:
        """Open a file that exists for reading."""
        kind = PassingFile if self.manner.spares_cache else ReadableFile
        return kind(self.path_of(name), self.open_file(name, os.O_RDONLY))

    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:
        """Open a file for writing, or make an empty one."""
        descriptor = self._made_file(name, exclusive=exclusive) if create else self.open_file(name, os.O_RDWR)
        return WritableFile(self.path_of(name), descriptor, lambda: self.open_file(name, os.O_RDWR))

    def status(self, name: str) -> FileStatus | None:
        """Return the file system's answer about a file, directory or link in it."""
        return self.look(name, follows_links=self.manner.follows_links)

    def look(self, name: str, *, follows_links: bool) -> FileStatus | None:
        """Return the same, of what a link leads to if it is followed."""
        give_way()
        try:
            if not self.is_reached_by_path or self.holder is not None:
                with self.entered(name) as place:
                    return FileStatus.of(os.stat(name, dir_fd=place, follow_symlinks=follows_links))
            try:  # most looks, which a context manager would make half as long again
                return FileStatus.of(os.stat(f"{self._absolute}/{name}", follow_symlinks=follows_links))
            except OSError as error:
                raise self.explained(error, self.path_of(name)) from None
        except FileNotFoundError:
            return None

    def own_status(self) -> FileStatus | None:
        """Return the file system's answer about its path now."""
        if self._above is not None:
            is_there = self._above.is_in_place()
            return self._above.look(self.name, follows_links=self._is_followed) if is_there else None
        try:
            with self._told():
                return FileStatus.of(os.stat(self._absolute))
        except FileNotFoundError:
            return None

    def is_at_path(self, identity: tuple[int, int]) -> bool:
        """Return True if its path leads to the directory of this identity now: each append asks, so in one call."""
        above = self._above
        if above is not None and above.above is not None:
            return super().is_at_path(identity)
        try:
            found = os.stat(self._absolute, follow_symlinks=above is None or self._is_followed)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (found.st_dev, found.st_ino) == identity

    def link_target(self, name: str) -> str:
        """Return what a link in it says, without following it."""
        with self.entered(name) as place:
            return os.readlink(name, dir_fd=place)

    def rename(self, old: str, new: str, into: Directory | None = None) -> None:
        """Rename a file or directory in it, in one step."""
        target = self if into is None else into
        assert isinstance(target, RealDirectory)
        with self.entered(old) as place, target.entered(new) as target_place:
            os.replace(old, new, src_dir_fd=place, dst_dir_fd=target_place)

    def link(self, name: str, into: Directory, new: str) -> None:
        """Give a file in it a second name, a hard link."""
        assert isinstance(into, RealDirectory)
        with self.entered(name) as place, into.entered(new) as target:
            os.link(name, new, src_dir_fd=place, dst_dir_fd=target, follow_symlinks=False)

    def make_link(self, name: str, target: str) -> None:
        """Make a symbolic link."""
        with self.entered(name) as place:
            os.symlink(target, name, dir_fd=place)

    def remove(self, name: str) -> None:
        """Unlink a file or a link. Open descriptors stay valid."""
        with self.entered(name) as place:
            os.unlink(name, dir_fd=place)

    def make(self, *, like: Directory | None = None) -> None:
        """Make the directory itself, in one that exists."""
        if self._above is None:
            with self._told():
                os.mkdir(self._absolute, self.manner.bits)
        else:
            self._made_in(self._above, like)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory in it."""
        with self.entered(name) as place:
            os.rmdir(name, dir_fd=place)

    def sync(self) -> None:
        """Return when the names in it are on disk."""
        with self.listed() as descriptor:
            os.fsync(descriptor)

    def lock(self, name: str) -> FileLock:
        """Take the lock that a broker takes on a file."""
        self._keep()
        try:
            lock = FileLock(self.path_of(name), self._made_file(name))
        except BaseException:
            self._let_go()
            raise
        lock.on_release = self._let_go
        return lock

    def is_locked(self, name: str) -> bool:
        """Return True if another process has that lock."""
        try:
            descriptor = self.open_file(name, os.O_RDONLY)
        except FileNotFoundError:
            return False
        return is_locked_elsewhere(descriptor)

    def free_bytes(self) -> int:
        """Return the space that its file system has left for this user."""
        with self.entered() as place:
            found = os.fstatvfs(place)
        return found.f_bavail * found.f_frsize

    def check_can_give(self) -> None:
        """Raise `OwnerError` if new files in it cannot be given to its owner."""
        found = self.own_status() if os.geteuid() == ROOT_UID else None
        if found is None or found.uid == ROOT_UID:
            return
        try:
            with self.entered() as place:
                descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=place)
        except OSError:  # making the first file raises it
            return
        try:
            settle(descriptor, self.path, Terms((found.uid, found.gid)))
        finally:
            os.close(descriptor)

    def access_list(self, name: str) -> bytes | None:
        """Return the POSIX access list of a file in it, or of itself under the name `.`."""
        try:
            with self.entered(name) as place:
                return read_access_list(place, name)
        except OSError:  # the file or the file system has no access lists
            return None
