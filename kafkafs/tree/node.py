"""What stands in the tree: directories, files and links, each at its path.

Nodes are made when they are asked for and hold no files open. All they do may take its time, and may raise a
`StorageError`, an `OSError`, or a `TreeError` where the tree itself refuses; whoever serves a mount turns each into an
error number. Any thread may use a node, and what is opened from it too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkafs.tree.errors import NotPermittedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

    from kafkafs.locator.paths import TreePath


class Attributes(NamedTuple):
    """What `stat` says of a node, less its kind.

    A file's `size_bytes` is exact, or None while it is unknown: then the file is read to its end without one. `place`
    is the real directory whose owner and mode it has, the store's first where that is None.
    """

    size_bytes: int | None = 0
    modified_ms: int = 0
    is_writable: bool = False
    disk_blocks: int = 1  # of 512 bytes
    place: Path | None = None
    is_lasting: bool = False  # neither contents nor attributes will ever change under this path and identity


class Node(ABC):
    """A place in the tree that is there.

    Two nodes at one path have the same `identity` unless what was there has been replaced by something else. If they
    have the same `lineage`, who has the one open need not open the other: all that is added shows in both.
    """

    def __init__(self, path: TreePath, *, identity: int = 0, lineage: int | None = None) -> None:
        self.path = path
        self.identity = identity
        self.lineage = identity if lineage is None else lineage

    @abstractmethod
    def attributes(self) -> Attributes:
        """What `stat` says of it now."""

    def xattrs(self) -> Mapping[str, bytes]:
        """The extended attributes by their full names, such as `user.kafka.key`."""
        return {}


class Entry(NamedTuple):
    """A name in a listing; with what `stat` says of what it leads to, and that one's identity, if they are at hand."""

    name: str
    attributes: Attributes | None = None
    identity: int = 0


class Directory(Node):
    """A directory. What names lead to is said by the tree, and more names lead somewhere than are listed."""

    def attributes(self) -> Attributes:
        """A directory without a time of its own."""
        return Attributes()

    @abstractmethod
    def names(self) -> Iterator[str]:
        """The names that are listed, without `.` and `..`, in the order in which they are to be listed."""

    def entries(self) -> Iterator[Entry]:
        """The same names; what is told with them is of regular files that last."""
        return map(Entry, self.names())

    def make(self, name: str) -> None:
        """Make a directory in it."""
        raise NotPermittedError(f"{self.path}: no directory can be made here ({name})")

    def remove(self, name: str) -> None:
        """Remove a directory in it."""
        raise NotPermittedError(f"{self.path}: nothing here can be removed ({name})")


class Link(Node):
    """A symbolic link."""

    @abstractmethod
    def target(self) -> str:
        """Where it leads, relative to the directory that it is in."""

    def attributes(self) -> Attributes:
        """As long as its target."""
        return Attributes(size_bytes=len(self.target()))


class File(Node):
    """A file that is read."""

    @abstractmethod
    def open(self) -> Reading:
        """Open it for reading; positions mean the same in what is opened for as long as it is open."""


class WritableFile(File):
    """A file that is written, and perhaps read as well."""

    @abstractmethod
    def open_writing(self) -> Writing:
        """Open it for writing. Cutting it to nothing first means nothing."""


class Reading(Protocol):
    """An open file. Reading needs no order, and several threads may read at once."""

    def size_bytes(self) -> int | None:
        """The exact size now, None while it is unknown."""

    def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes from the position: as many as asked for, fewer only at the end; none at the end and behind it."""

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """The same if it takes less than about a millisecond; None if it may take longer."""

    def close(self) -> None:
        """Let go of what is held."""


class Writing(Protocol):
    """A file open for writing. Writes come one at a time, and positions mean nothing."""

    def write(self, data: Buffer) -> None:
        """Take all of the data, or raise and take none of it."""

    def read(self, size_bytes: int) -> bytes:
        """What there is to be read by who writes: receipts, each once. Nothing if there is none."""

    def flush(self) -> None:
        """Take what was written and is complete only now; called any number of times."""

    def sync(self) -> None:
        """Return when all that was taken is on disk."""

    def close(self) -> None:
        """Let go of what is held. Nothing more is taken, and nobody hears of an error."""
