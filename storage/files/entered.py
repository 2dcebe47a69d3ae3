"""Directories that are open for a block, so that what is in them is reached from there."""

from __future__ import annotations

import os
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple, Protocol

from storage.errors import SpecialFileError

if TYPE_CHECKING:
    from types import TracebackType


class Manner(NamedTuple):
    """How directories are entered and what is made in them: those of a store, unless said otherwise.

    Links are followed to files that a user named, if `follows_links`; to the directories of partitions, and to nothing
    in these, if `follows_partitions`. New files and directories have no permission bits but some of `bits`. Files that
    are read leave the page cache as it was if it `spares_cache`. What root makes belongs to the owner of its directory,
    or to root if it `keeps_own`.
    """

    is_of_store: bool = True
    follows_links: bool = False
    follows_partitions: bool = False
    spares_cache: bool = False
    bits: int = 0o777
    keeps_own: bool = False


class Entrance(Protocol):
    """A directory that is entered. `holder` is what a thread holds of it; other threads go by the path meanwhile."""

    path: str
    holder: Held | None

    def path_of(self, name: str) -> str:
        """Return the path of a file in it."""

    def enter(self) -> int:
        """Return a descriptor of it, which the caller closes."""

    def explained(self, error: OSError, path: str) -> OSError:
        """Return the error with a path in it, or one that names the link which is in the way."""


class Entered:
    """A directory entered for a block that uses `name` in it; yields its descriptor."""

    __slots__ = ("_descriptor", "_directory", "_name")

    def __init__(self, directory: Entrance, name: str) -> None:
        self._directory = directory
        self._name = name

    def __enter__(self) -> int:
        held = self._directory.holder
        if held is not None and held.thread == get_ident():
            self._descriptor = -1
            return held.place
        try:
            self._descriptor = self._directory.enter()
        except OSError as error:
            raise self._explained(error) from None
        return self._descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if isinstance(error, OSError) and not isinstance(error, SpecialFileError):
            explained = self._explained(error)
            if explained is not error:
                raise explained from None

    def _explained(self, error: OSError) -> OSError:
        directory = self._directory
        return directory.explained(error, directory.path_of(self._name) if self._name else directory.path)


class Held:
    """A directory held by a thread for a block. In a block within it, or while another thread holds it, it is not."""

    __slots__ = ("_directory", "place", "thread")

    def __init__(self, directory: Entrance) -> None:
        self._directory = directory
        self.thread = get_ident()
        self.place = -1

    def __enter__(self) -> None:
        if self._directory.holder is None:
            with suppress(OSError):  # what uses a file in it raises the error
                self.place = self._directory.enter()
                self._directory.holder = self

    def __exit__(self, *_: object) -> None:
        if self.place >= 0:
            self._directory.holder = None
            os.close(self.place)


def path_from_root(path: str) -> str:
    """Return the path from the root of the file system. It is not normalized, as `..` may follow a link."""
    try:
        return os.path.join(os.getcwd(), path)
    except FileNotFoundError:  # the working directory was removed
        return path
