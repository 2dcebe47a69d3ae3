"""The operating system's directories: opened from the log directory down, without following a link."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from storage.files.listed import read_access_list
from storage.files.lock import FileLock, is_locked_elsewhere
from storage.files.making import settle, undoing
from storage.files.opened import FileStatus, ReadableFile, WritableFile
from storage.files.ownership import ROOT_UID, Terms, terms_of_directory, terms_of_file
from storage.files.passing import PassingFile
from storage.files.reached import ReachedDirectory
from storage.files.removing import remove_tree
from storage.files.turns import give_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files.directory import Directory

_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNOPENED: Final = frozenset({errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EAGAIN})
"""What opening sockets and devices ends with, and a file on which another process holds a lease."""
_LEASED: Final = "another process holds a lease on the file, and kafkafs does not wait for it; try again"


class RealDirectory(ReachedDirectory):
    """A directory of the operating system, and what is done with the files in it."""

    def __reduce__(self) -> tuple[object, ...]:
        return RealDirectory, (self.path, self._above, self.manner)

    def at(self, name: str) -> RealDirectory:
        """Return the directory of this name in it, which need not exist."""
        return RealDirectory(self.path_of(name), self, self.manner)

    def limited(self, bits: int, *, keeps_own: bool = False) -> RealDirectory:
        """Return the same directory; what is made by way of the result has no permission bits but some of these.

        It belongs to the process's user if this `keeps_own`.
        """
        return RealDirectory(self.path, self._above, self.manner._replace(bits=bits, keeps_own=keeps_own))

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
                    self._check_is_file(name, os.stat(name, dir_fd=place, follow_symlinks=False), place)
                if error.errno == errno.EAGAIN:  # not as such, which is what a lock that another process has ends with
                    raise OSError(errno.EBUSY, _LEASED) from None
                raise
            try:
                self._check_is_file(name, os.fstat(descriptor), place)
            except OSError:
                os.close(descriptor)
                raise
        return descriptor

    def _check_is_file(self, name: str, found: os.stat_result, place: int) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            refusal = self.refusal(name, FileStatus.of(found), place)
            if refusal is not None:
                raise refusal

    def _is_owned(self, uid: int, place: int) -> bool:
        """Return True if this user has the directory that a descriptor is of, or the log directory that holds it."""
        if place < 0:
            return super()._is_owned(uid, place)
        own = os.fstat(place)
        if own.st_uid == uid or self._above is None:
            return own.st_uid == uid
        try:
            with self._above.entered() as outside:
                held = os.stat(self.name, dir_fd=outside, follow_symlinks=self._is_followed)
                return os.path.samestat(held, own) and os.fstat(outside).st_uid == uid
        except FileNotFoundError:
            return False

    def _made_file(self, name: str, *, exclusive: bool = False) -> int:
        """Open a file, made if it does not exist, and return its descriptor; `exclusive` refuses one that exists."""
        while True:
            if not exclusive:
                with suppress(FileNotFoundError):
                    return self.open_file(name, os.O_RDWR)
            terms = self._bounded(terms_of_file(self, name, os.geteuid()))
            try:
                descriptor = self.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, terms.making_mode)
            except FileExistsError:  # another process was faster; it may remove the file again
                if exclusive:
                    raise
                continue
            with undoing(descriptor, self.path_of(name), lambda: self.remove(name)):
                settle(descriptor, self.path_of(name), terms)
            return descriptor

    def _bounded(self, terms: Terms) -> Terms:
        bounded = terms.limited(self.manner.bits)
        return replace(bounded, owner=None) if self.manner.keeps_own else bounded

    def _made_in(self, above: ReachedDirectory, like: Directory | None) -> None:
        terms = self._bounded(terms_of_directory(above, like, os.geteuid()))
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

    def remove_tree(self, name: str) -> None:
        """Remove a file, or a directory and all that is in it, however deep. Links are removed, and never followed."""
        with self.entered(name) as place:
            descriptor = os.dup(place)
        remove_tree(descriptor, name, self.path_of(name))

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
        found = self.reached_status() if os.geteuid() == ROOT_UID else None
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
