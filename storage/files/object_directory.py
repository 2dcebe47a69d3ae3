"""A prefix of an object store as a directory, for reading.

There are no links, special files, holes, owners or locks in it, and nothing can be written. It is the directory of what
a listing names, however many objects it takes.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from storage.errors import NotAStoreError, ReadOnlyStoreError, missing_file
from storage.files.directory import Directory
from storage.files.object_file import ObjectFile, ReplacedObjectError, windows
from storage.files.object_store import object_store
from storage.files.uris import as_uri, parse_object_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.errors import StorageError
    from storage.files.lock import FileLock
    from storage.files.object_store import Listing, ObjectStore
    from storage.files.opened import FileStatus, ReadableFile, WritableFile

Read = TypeVar("Read")

_TRIES: Final = 3  # at a small file, each of which may be replaced while it is read


class ObjectDirectory(Directory):
    """A prefix. Without a directory `above` it is one that a user named."""

    def __init__(self, path: str, above: ObjectDirectory | None = None) -> None:
        super().__init__(as_uri(path))
        self._above = above
        place = parse_object_path(self.path)
        if place is None:
            raise NotAStoreError("the path leads into no object store", path=self.path)
        self._place = place

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectDirectory, (self.path, self._above)

    @property
    def _store(self) -> ObjectStore:
        return object_store(self._place)

    @property
    def above(self) -> ObjectDirectory | None:
        """The log directory that holds this partition's directory."""
        return self._above

    @property
    def is_of_store(self) -> bool:
        """False: it gets no new files."""
        return False

    def at(self, name: str) -> ObjectDirectory:
        """Return the directory of this name in it, which need not exist."""
        return ObjectDirectory(self.path_of(name), self)

    # Reading

    def look_again(self) -> None:
        """Take the next listing from the object store."""
        self._store.forget(self._place.path)

    def open_reading(self, name: str) -> ReadableFile:
        """Open an object for reading, as it is now or was less than a second ago."""
        status = self.status(name)
        if status is None:
            raise missing_file(self.path_of(name))
        return ObjectFile(windows.opened(self._store, self._key(name), self.path_of(name), status.size_bytes))

    def read(self, name: str) -> bytes:
        """Read all of a small file."""
        return _until_unchanged(lambda: super(ObjectDirectory, self).read(name))

    def read_small(self, name: str, refusal: type[StorageError], bytes_max: int) -> bytes:
        """Read all of a small file; raises `refusal` before reading one larger than its kind's limit."""
        return _until_unchanged(lambda: super(ObjectDirectory, self).read_small(name, refusal, bytes_max))

    def status(self, name: str) -> FileStatus | None:
        """Return what the listing says about a name in it, None if none has that name."""
        listing = self._listing()
        return None if listing is None else listing.statuses.get(name)

    def own_status(self) -> FileStatus | None:
        """Return its status by its own listing, None if nothing is there. Its time is that of a change in it."""
        listing = self._listing()
        if listing is not None:
            return self._store.status_of_prefix(self._place.path, listing)
        if self._above is not None:
            found = self._above.status(self.name)
            return None if found is not None and found.is_directory else found
        return self._store.status(self._place.path, self.path)

    def names(self) -> list[str]:
        """List the names in it, in no order."""
        return list(self.statuses())

    def statuses(self) -> dict[str, FileStatus]:
        """Return what the listing says about each name in it, in no order."""
        listing = self._listing()
        if listing is None:
            found = self.own_status()
            if found is not None:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)
            raise missing_file(self.path)
        return dict(listing.statuses)

    def _listing(self) -> Listing | None:
        return self._store.listing(self._place.path, self.path)

    def _key(self, name: str) -> str:
        return f"{self._place.path}/{name}".lstrip("/")

    # What only other directories have

    def link_target(self, name: str) -> str:
        """Refuse: there are no links."""
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path_of(name))

    def is_locked(self, name: str) -> bool:  # noqa: ARG002 -- as in Directory
        """Return False: no process has a lock in an object store."""
        return False

    def access_list(self, name: str) -> bytes | None:  # noqa: ARG002 -- as in Directory
        """Return None: there are none."""
        return None

    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def rename(self, old: str, new: str, into: Directory | None = None) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def link(self, name: str, into: Directory, new: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def make_link(self, name: str, target: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def remove(self, name: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def make(self, *, like: Directory | None = None) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def remove_directory(self, name: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def sync(self) -> None:
        """Refuse."""
        self._refuse()

    def lock(self, name: str) -> FileLock:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        self._refuse()

    def free_bytes(self) -> int:
        """Refuse: no one knows."""
        self._refuse()

    def check_can_give(self) -> None:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReadOnlyStoreError(
            "an object store is only read; copy it to a directory, and change the copy or mount it", path=self.path
        )


def _until_unchanged(read: Callable[[], Read]) -> Read:
    for _ in range(_TRIES - 1):
        try:
            return read()
        except ReplacedObjectError:
            continue
    return read()
