"""What an open directory says of the names in it, without a look at each by its path."""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY
from storage.files.directory import Directory
from storage.files.opened import Access, FileStatus
from storage.files.turns import give_way, takes_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from storage.errors import SpecialFileError

ACCESS_LIST: Final = "system.posix_acl_access"
LARGE_DIRECTORY_BYTES: Final = 256 * 1024
"""From which size on a directory has thousands of names, too many to be listed between two requests.

A name takes some 20 bytes of it in a file system in memory, and more on disks.
"""
_TURN_NAMES: Final = 100
ACCESSES_MAX: Final = 200_000
"""How many files are looked at for their rights: what 50,000 segments have."""


class ListedDirectory(Directory):
    """A directory of the operating system, as far as it tells of all of its names."""

    @abstractmethod
    def listed(self) -> AbstractContextManager[int]:
        """Yield a descriptor of the directory with which its names can be read and synced."""

    def names(self) -> list[str]:
        """List the names in it, in no order."""
        with self.listed() as descriptor:
            return names_in(descriptor)

    def statuses(self) -> dict[str, FileStatus]:
        """Return the file system's answer about each name in it, in no order."""
        with self.listed() as descriptor:
            return {name: FileStatus.of(found) for name, found in _found_in(descriptor, lambda _: True)}

    def directories(self) -> Iterator[tuple[str, bool]]:
        """Yield the names of the directories and links in it, in no order, each with True if it is a link.

        The listing tells which they are: of a million files, none is looked at.
        """
        with self.listed() as descriptor:
            for entry in _entries_in(descriptor):
                if entry.is_symlink():
                    yield entry.name, True
                elif entry.is_dir(follow_symlinks=False):
                    yield entry.name, False

    def accesses(self, is_meant: Callable[[str], bool], *, with_access_lists: bool) -> set[Access]:
        """Return the different owners and modes of its own files that have such names.

        With access lists, a file that has one grants nothing but to its owner. Of more files than `ACCESSES_MAX` those
        that were not looked at may be any user's, so they are taken to grant nothing.
        """
        accesses = set()
        with self.listed() as descriptor:
            check_may_list(os.fstat(descriptor).st_size)
            for number, (name, found) in enumerate(_found_in(descriptor, is_meant)):
                if number == ACCESSES_MAX:
                    accesses.add(Access(found.st_uid, found.st_gid, 0))
                    break
                mode = found.st_mode
                if not stat.S_ISREG(mode):
                    continue
                if found.st_nlink > 1 and self.refusal(name, FileStatus.of(found), descriptor):
                    continue
                has_list = with_access_lists and mode & 0o077 and has_access_list(descriptor, name)
                accesses.add(Access(found.st_uid, found.st_gid, mode & (0o700 if has_list else 0o777)))
        return accesses

    def strangers(self, is_opened: Callable[[str], bool] = lambda _: True) -> dict[str, SpecialFileError]:
        """Return the names in it of what is no file or directory of its own, each with the error that opening raises.

        Of regular files only those are looked at that the caller may open by their names. Of a million files with one
        name each, nothing is made.
        """
        strangers = {}
        with self.listed() as descriptor:
            for entry in _entries_in(descriptor):
                # The listing tells which kind each is, so most need no look.
                if entry.is_file(follow_symlinks=False):
                    if not is_opened(entry.name):
                        continue
                elif entry.is_dir(follow_symlinks=False):
                    continue
                name, found = entry.name, _status(entry)
                if found is None or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
                    continue
                error = self.refusal(name, FileStatus.of(found), descriptor)
                if error is not None:
                    strangers[name] = error
        return strangers


def check_may_list(directory_bytes: int) -> None:
    """Raise `MustWaitError` if a directory of this size is large, and this thread may do nothing that takes long.

    A caller that is about to write does not ask: it must not be interrupted.
    """
    if directory_bytes >= LARGE_DIRECTORY_BYTES:
        MEMORY.check_lease()


def has_access_list(place: int, name: str) -> bool:
    """Return True if a file in an open directory has an access list.

    Most have none, and an error takes longer than asking for the names of all attributes.
    """
    try:
        return ACCESS_LIST in os.listxattr(f"/proc/self/fd/{place}/{name}", follow_symlinks=False)
    except OSError:  # the file system has no attributes
        return False


def read_access_list(place: int, name: str) -> bytes | None:
    """Return the access list of a file in an open directory; None if it has none."""
    if not has_access_list(place, name):
        return None
    return os.getxattr(f"/proc/self/fd/{place}/{name}", ACCESS_LIST, follow_symlinks=False)


def names_in(descriptor: int) -> list[str]:
    """Return the names in an open directory, in no order."""
    if takes_turns() and os.fstat(descriptor).st_size >= LARGE_DIRECTORY_BYTES:
        return [entry.name for entry in _entries_in(descriptor)]
    return os.listdir(descriptor)


def _found_in(descriptor: int, is_meant: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    for entry in _entries_in(descriptor):
        if is_meant(entry.name) and (found := _status(entry)) is not None:
            yield entry.name, found


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of what is in a directory; None if it was removed since it was listed."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _entries_in(descriptor: int) -> Iterator[os.DirEntry[str]]:
    """Yield what is in an open directory; a thread that takes turns does so here, unlike in `os.listdir`."""
    with os.scandir(descriptor) as entries:
        for number, entry in enumerate(entries):
            if number % _TURN_NAMES == 0:
                give_way()
            yield entry
