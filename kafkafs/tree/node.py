"""The nodes of the tree: directories, files and links, each at its path.

Nodes are made on demand and hold no files open. Every method may block, and may raise a `StorageError`, an `OSError`,
or a `TreeError` where the tree itself refuses; a mount turns each into an error number. Any thread may use a node and
what is opened from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkafs.tree.errors import NotPermittedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from kafkafs.locator.paths import LogPath, TreePath
    from storage.files import Access


_READ_BYTES: Final = 1024 * 1024


class Attributes(NamedTuple):
    """What `stat` says of a node, except its kind.

    A file's `size_bytes` is exact, or None while it is unknown: then the file is read to its end without one. `access`
    is that to the files which it shows, and None for that to the store itself.
    """

    size_bytes: int | None = 0
    modified_ms: int = 0
    is_writable: bool = False
    disk_blocks: int = 1  # of 512 bytes
    access: Access | None = None
    is_lasting: bool = False  # contents and attributes never change under this path and identity


class Node(ABC):
    """A node of the tree.

    Two nodes at one path have the same `identity` unless the first was replaced. If they have the same `lineage`, a
    reader of one need not open the other: both show everything that is added.
    """

    def __init__(self, path: TreePath, *, identity: int = 0, lineage: int | None = None) -> None:
        self.path = path
        self.identity = identity
        self.lineage = identity if lineage is None else lineage

    @abstractmethod
    def attributes(self) -> Attributes:
        """Return what `stat` says of it now."""

    @property
    def held_bytes(self) -> int:
        """Return about how much memory of decoded records the node holds."""
        return 0

    def xattrs(self) -> Mapping[str, bytes]:
        """Return the extended attributes by their full names, such as `user.kafka.key`."""
        return {}


class Entry(NamedTuple):
    """A name in a listing, with the attributes and the identity of its node if they are known already.

    `type` is the node's, as in `st_mode`, where its path does not tell it.
    """

    name: str
    attributes: Attributes | None = None
    identity: int = 0
    type: int | None = None


class Directory(Node):
    """A directory. The tree resolves its names, more than are listed."""

    def attributes(self) -> Attributes:
        """A directory without a time of its own."""
        return Attributes()

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Return the names to list, in order, without `.` and `..`."""

    def entries(self) -> Iterator[Entry]:
        """Return the same names, with attributes for immutable regular files only."""
        return map(Entry, self.names())

    def walked(self, *, is_sized: bool) -> Iterator[Entry]:  # noqa: ARG002
        """Return the same names for a walk through many directories: with attributes where these take little to find.

        A size that takes more than a look at a file is unknown, unless the walk `is_sized` and the log is short.
        """
        return self.entries()

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
        """Return its target, relative to its directory."""

    def attributes(self) -> Attributes:
        """As long as its target."""
        return Attributes(size_bytes=len(self.target()))


class File(Node):
    """A file that is read."""

    @abstractmethod
    def open(self) -> Reading:
        """Open it for reading. Positions in the open file never change their meaning."""

    def contents(self) -> Iterator[Buffer]:
        """Yield all of it once, in order, as it is now. Nothing is counted for a caller that needs no size."""
        with closing(self.open()) as reading:
            position = 0
            while data := reading.read(position, _READ_BYTES):
                yield data
                position += len(memoryview(data))


class Stranger(File):
    """What stands in the place of a file and is never opened: a FIFO, a socket, a device, or a link.

    It is shown with its own type, as in `st_mode`; `refusal` says why it is not opened. What a link leads to is told by
    `target`, in a text that leads nowhere: it begins with the link's own name.
    """

    def __init__(self, path: TreePath, refusal: OSError, *, identity: int, node_type: int, target: str = "") -> None:
        super().__init__(path, identity=identity)
        self.refusal = refusal
        self.type = node_type
        self.target = target

    def open(self) -> Reading:
        """Raise the refusal."""
        raise self.refusal


class WritableFile(File):
    """A file that can be written, and perhaps read."""

    @abstractmethod
    def open_writing(self) -> Writing:
        """Open it for writing. Truncation is ignored."""


class NodeTree(Protocol):
    """The source of nodes."""

    def node(self, path: TreePath) -> Node:
        """Return the node at a path."""

    def child(self, parent: TreePath, name: str) -> Node:
        """What a name leads to in a directory."""

    def is_narrower(self, node: Node | None, log: LogPath | None, granted: Access | None) -> bool:
        """Return True if not all users may have what these show now whom the attributes of the file `granted` it.

        The node is that which a request got, or None; the log is that of its views, if it is one.
        """


class Reading(Protocol):
    """An open file. Reading needs no order, and several threads may read at once."""

    def size_bytes(self) -> int | None:
        """Return the exact size now, None while it is unknown; once it is closed, the last known one.

        A descriptor may be closed while a thread finds out what `stat` says.
        """

    def read(self, position: int, size_bytes: int) -> Buffer:
        """Return the bytes from the position: as many as asked for, fewer only at the end, none after it."""

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if that takes less than about a millisecond, and otherwise None."""

    def close(self) -> None:
        """Release what is held."""


class Writing(Protocol):
    """A file open for writing. The caller makes one write at a time; positions are ignored."""

    def write(self, data: Buffer) -> None:
        """Take all of the data, or raise and take none of it."""

    def read(self, size_bytes: int) -> bytes:
        """Return the writer's next receipts, each once, and nothing if there are none."""

    def flush(self) -> None:
        """Take what this close completes. It may be called any number of times."""

    def sync(self) -> None:
        """Return when all that was taken is on disk."""

    def close(self) -> None:
        """Release everything. Errors are dropped, and nothing more may be written."""
