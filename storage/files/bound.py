"""Directories of the operating system that stay the same directory, even if another one gets their path."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.files.opened import identity_of
from storage.files.real import RealDirectory

if TYPE_CHECKING:
    from storage.files.directory import Directory
    from storage.files.opened import FileStatus

_REPLACED: Final = "another directory is at its path"
_NOWHERE: Final = (-1, -1)


class BoundDirectory(RealDirectory):
    """A directory that is reached by its path, and is missing once another directory is there.

    So one that was exchanged for another shows no file of that one to a reader who may read the first.
    """

    __slots__ = ("_device", "_number")  # a store may have tens of thousands

    def __init__(self, directory: RealDirectory, identity: tuple[int, int]) -> None:
        super().__init__(directory.path, directory.above, directory.manner)
        self._device, self._number = identity

    @property
    def identity(self) -> tuple[int, int]:
        """The numbers of its file system and of itself."""
        return self._device, self._number

    def checked(self, place: int) -> int:
        """Return this descriptor of the directory; closes it and raises `FileNotFoundError` if it is another's."""
        if identity_of(os.fstat(place)) != self.identity:
            os.close(place)
            raise FileNotFoundError(errno.ENOENT, _REPLACED, self.path)
        return place

    @property
    def is_reached_by_path(self) -> bool:
        """False: what is in it is reached by way of a look at the directory."""
        return False

    def own_status(self) -> FileStatus | None:
        """Return the file system's answer about the directory; None if its path does not lead to it."""
        found = super().own_status()
        return found if found is not None and found.identity == self.identity else None


def bound(directory: Directory) -> Directory:
    """Return the directory that the path leads to now; it is missing from the moment when another is there.

    One that is missing already stays so. The same object is returned as long as nothing has changed, and for a
    directory of a file system whose directories have no identity.
    """
    if not isinstance(directory, RealDirectory):
        return directory
    unbound = RealDirectory(directory.path, directory.above, directory.manner)
    identity = _NOWHERE
    with suppress(OSError):  # which each use raises
        found = unbound.own_status()  # of one, too, that may not be entered
        identity = _NOWHERE if found is None else found.identity
    if isinstance(directory, BoundDirectory) and directory.identity == identity:
        return directory
    return BoundDirectory(unbound, identity)
