"""How a directory of the operating system is reached: by the path that a user named, and from there name by name."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from storage.errors import SymbolicLinkError
from storage.files.entered import Entered, Held, Manner, path_from_root
from storage.files.kept import PLACE, Kept
from storage.files.listed import ListedDirectory
from storage.files.opened import FileStatus, identity_of
from storage.files.turns import give_way

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINKED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


class ReachedDirectory(ListedDirectory):
    """A directory of the operating system, as far as it is reached and looked at.

    Without a directory `above` it is one that a user named: each use opens it by its path, so that a reader sees a
    directory that replaces it, and keeps no file system from being unmounted. In a block of `kept`, and while a lock in
    it is held, it stays open, so that a writer writes to the directory that it looked at, and to no other. A relative
    path stays what it was when the object was made. Links in it are followed only if `follows_links`, as is right for
    files that a user names and that belong to no store.
    """

    holder: Held | None = None  # other threads go by the path meanwhile

    def __init__(
        self,
        path: str | os.PathLike[str],
        above: ReachedDirectory | None = None,
        manner: Manner = Manner(),  # noqa: B008 -- it never changes
    ) -> None:
        super().__init__(os.fspath(path))
        self._above = above
        self.manner = manner
        is_in_log_dir = above is not None and above.above is None  # then it may be a partition's, and a link
        self._is_followed = manner.follows_links or (manner.follows_partitions and is_in_log_dir)
        self._absolute = path_from_root(self.path) if above is None else above.absolute(self.path)
        self._kept = Kept() if above is None else None

    @property
    def above(self) -> ReachedDirectory | None:
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

    def absolute(self, path: str) -> str:
        """Return the path of something in it from the root of the file system; the path is below its own."""
        return path if self._absolute is self.path else os.path.join(self._absolute, path.rpartition("/")[2])

    # Reaching what is in it

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
        above = self._above
        if above is None or above.is_reached_by_path:
            return self.checked(self.opened_place())
        below, top = list[ReachedDirectory](), self  # directories may be deeper than Python's stack
        while top._above is not None and not top._above.is_reached_by_path:
            below.append(top)
            top = top._above
        place = top.checked(top.opened_place())
        while below:
            directory = below.pop()
            try:
                inside = os.open(directory.name, directory.flags, dir_fd=place)
            finally:
                os.close(place)
            place = directory.checked(inside)
        return place

    def opened_place(self) -> int:
        """Return a descriptor of the directory that is kept open, or that its path leads to."""
        place = -1 if self._kept is None else self._kept.duplicate()
        return os.open(self._absolute, self.flags) if place < 0 else place

    @property
    def flags(self) -> int:
        """The flags with which it is opened: they tell if a link in its place is followed."""
        return PLACE if self._above is None or self._is_followed else PLACE | os.O_NOFOLLOW

    def checked(self, place: int) -> int:
        """Return this descriptor of the directory; closes it and raises an error if it must not be used."""
        return place

    @property
    def is_reached_by_path(self) -> bool:
        """True if a user named the directory and it is not kept open: then one call reaches what is in it."""
        return self._kept is not None and self._kept.identity is None

    @property
    def is_kept(self) -> bool:
        """True while it is kept open."""
        return self._kept is not None and self._kept.identity is not None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the directory that a user named open in a block, so that each use in it reaches the same directory."""
        self._keep()
        try:
            yield
        finally:
            self._let_go()

    def _keep(self) -> None:
        if self._kept is not None:
            with self._told():
                self._kept.keep(self._absolute)

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.let_go()

    def is_in_place(self) -> bool:
        """Return False if its path leads to another directory than the one that is kept open, or to none."""
        kept = None if self._kept is None else self._kept.identity
        try:
            return kept is None or identity_of(os.stat(self._absolute)) == kept
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

    # Looking at it

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
        """Return the file system's answer about its path now; None if that leads to another than the one kept open."""
        if self._above is not None:
            is_there = self._above.is_in_place()
            return self._above.look(self.name, follows_links=self._is_followed) if is_there else None
        try:
            with self._told():
                found = FileStatus.of(os.stat(self._absolute))
        except FileNotFoundError:
            return None
        return found if not self._kept or self._kept.identity in {None, found.identity} else None

    def reached_status(self) -> FileStatus | None:
        """Return the file system's answer about the directory in which its files are reached."""
        try:
            with self.entered() as place:
                return FileStatus.of(os.fstat(place))
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
