"""Removing a directory of the operating system and all that is in it, however deep that is.

One directory is open at a time, and the way back up is `..`. So a directory counts as one of the tree only if it is the
one from which the way led down: a directory that is moved away meanwhile leads to nothing outside of the tree.
"""

from __future__ import annotations

import errno
import os
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from storage.files.listed import names_in
from storage.files.opened import identity_of
from storage.files.turns import give_way

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_CHARACTERS_MAX: Final = 4096
_MOVED: Final = "the directory was moved while what is in it was removed"


@dataclass(slots=True)
class _Level:
    """A directory on the way down: its name, what it is, and the names of the directories in it that are left."""

    name: str
    identity: tuple[int, int]
    left: list[str] = field(default_factory=list)


def remove_tree(place: int, name: str, path: str) -> None:
    """Remove a file, or a directory and all that is in it, from an open directory, whose descriptor is closed.

    Links are removed, and never followed. Raises `FileNotFoundError` if it is not there; what goes by itself below it
    is no error. Other errors have the path of what could not be removed, which begins with the path given.
    """
    with closing(_Way(place, path)) as way:
        with way.told():
            if not _is_left(place, name):
                return
        way.enter(name)
        while way.levels:
            left = way.levels[-1].left
            if not left:
                way.leave()
                continue
            with suppress(FileNotFoundError):
                way.enter(left.pop())


class _Way:
    """The way down to the directory that is open now."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.levels: list[_Level] = []
        self._path = path
        self._descriptor = descriptor
        self._above = identity_of(os.fstat(descriptor))

    def close(self) -> None:
        """Close the directory."""
        os.close(self._descriptor)

    def enter(self, name: str) -> None:
        """Go down into a directory of the open one, and remove all in it but the directories."""
        with self.told(name):
            self._go(os.open(name, _LISTED, dir_fd=self._descriptor))
        self.levels.append(_Level(name, identity_of(os.fstat(self._descriptor))))
        with self.told():
            for each in names_in(self._descriptor):
                give_way()
                with suppress(FileNotFoundError):
                    if _is_left(self._descriptor, each):
                        self.levels[-1].left.append(each)

    def leave(self) -> None:
        """Go up to the directory from which this one was entered, and remove this one from there."""
        above = self.levels[-2].identity if len(self.levels) > 1 else self._above
        with self.told():
            outside = os.open("..", _PLACE, dir_fd=self._descriptor)
            if identity_of(os.fstat(outside)) != above:
                os.close(outside)
                raise OSError(errno.ESTALE, _MOVED)
            self._go(outside)
            with suppress(FileNotFoundError):
                os.rmdir(self.levels[-1].name, dir_fd=self._descriptor)
        self.levels.pop()

    def _go(self, descriptor: int) -> None:
        os.close(self._descriptor)
        self._descriptor = descriptor

    @contextmanager
    def told(self, *below: str) -> Iterator[None]:
        """Raise errors of a block with the path of the open directory, or of a name in it.

        One that is too long to be of use is cut: the tree's own path says where to look.
        """
        try:
            yield
        except OSError as error:
            path = "/".join([self._path, *(level.name for level in self.levels[1:]), *(below if self.levels else ())])
            error.filename = path if len(path) <= _PATH_CHARACTERS_MAX else self._path
            raise


def _is_left(place: int, name: str) -> bool:
    """Remove a file or a link; True for a directory, which stays. Unlinks first, so that no look at it is outdated."""
    try:
        os.unlink(name, dir_fd=place)
    except IsADirectoryError:
        return True
    return False
