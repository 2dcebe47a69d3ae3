"""The nodes that the kernel knows, by inode, from their lookup until the kernel forgets them."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.paths import PartitionFilePath
from kafkafs.mount.caching import DIRECTORY, GROWING, LASTING, MOMENTARY
from kafkafs.mount.dispatch import Pace, Share
from kafkafs.mount.inode_numbers import ROOT_NUMBER, InodeNumbers, digest, log_of
from kafkafs.tree.node import Attributes, Directory, Link, Stranger
from storage.budget import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from kafkafs.locator.paths import LogPath, TreePath
    from kafkafs.mount.caching import Caching
    from kafkafs.mount.tails import Tail
    from kafkafs.tree.node import Node, Reading

    # A number that is computed, or the path of the directory that a name was found in, and the path it leads to.
    Place: TypeAlias = "tuple[TreePath, TreePath] | int"

_NODES_MAX: Final = 256
_NODES_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_MAX: Final = 100_000
"""How many files the kernel is let know: each takes a kilobyte here, and ranges have any number of names."""
_SURPLUS_MAX: Final = 5000  # files that it is made to forget at a time
LARGE_BYTES: Final = 1024 * 1024


class Placed(NamedTuple):
    """The facts of a node at a path, from the node itself or from a listing."""

    path: TreePath
    identity: int | None  # None while it is not known, as of a directory that was only listed
    lineage: int
    type: int


class Inode:
    """A node that the kernel knows.

    `key` is the kernel's name for it, `number` is shown as `st_ino`. Where the descriptors of a path share nothing,
    each lookup makes an inode with another key and the same number. `attributes` are those that the kernel last got;
    `is_resized` says that it got another size before. `readings` are open. A file that grows has a `tail` once it was
    opened. `kept_node` is that of the last lookup: kept for a while if it is immutable, and until it is opened if it is
    generated.
    """

    __slots__ = (
        "_attributes",
        "caching",
        "identity",
        "is_resized",
        "kept_node",
        "key",
        "lineage",
        "log",
        "lookups",
        "name",
        "number",
        "parent",
        "path",
        "place",
        "quick",
        "readings",
        "share",
        "tail",
        "type",
        "writes",
    )

    def __init__(
        self,
        key: int,
        number: int,
        place: Placed,
        attributes: Attributes,
        caching: Caching,
        parent: Inode | None,
        name: bytes,
    ) -> None:
        self.key = key
        self.number = number
        self.path, self.identity, self.lineage, self.type = place
        self.place: Place = key
        self.log = log_of(self.path)
        self._attributes = attributes
        self.is_resized = False
        self.caching = caching
        self.parent = parent or self
        self.name = name
        self.lookups = 0
        self.readings: list[Reading] = []
        self.kept_node: Node | None = None
        self.tail: Tail | None = None
        is_first_of_log = parent is None or (self.log is not None and parent.log is None)
        self.share: Share = Share() if is_first_of_log else self.parent.share
        """That of its partition; everything above the partitions has another."""
        self.quick: Pace = Pace(self.share) if caching is DIRECTORY else self.parent.quick
        """How quickly small files in this directory were found and opened."""
        self.writes: Pace = Pace(self.share) if caching is DIRECTORY else self.parent.writes

    @property
    def attributes(self) -> Attributes:
        """Those that the kernel last got."""
        return self._attributes

    @attributes.setter
    def attributes(self, attributes: Attributes) -> None:
        self.is_resized = self.is_resized or attributes.size_bytes != self._attributes.size_bytes
        self._attributes = attributes


def placed(node: Node) -> Placed:
    """Return the facts of a node."""
    if isinstance(node, Stranger):
        kind = node.type
    else:
        kind = stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFLNK if isinstance(node, Link) else stat.S_IFREG
    return Placed(node.path, node.identity, node.lineage, kind)


class Inodes:
    """The inodes. Only the event loop's thread may use them."""

    def __init__(self, root: Node, attributes: Attributes) -> None:
        self._numbers = InodeNumbers()
        self._root = Inode(ROOT_NUMBER, ROOT_NUMBER, placed(root), attributes, DIRECTORY, None, b"")
        self._by_key: dict[int, Inode] = {ROOT_NUMBER: self._root}
        self._shared: dict[Place, Inode] = {}
        self._lasting: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
        self._growing: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
        self._lineages: dict[int, tuple[int, int]] = {}
        self._with_nodes: deque[tuple[Inode, int]] = deque()  # and how much memory the node of each took
        self._nodes_bytes = 0
        self._large: Inode | None = None  # whose node holds much memory
        self._account = MEMORY.account(self.drop_large)

    def __len__(self) -> int:
        return len(self._by_key)

    def __getitem__(self, key: int) -> Inode:
        inode = self._by_key.get(key) or self._revived(key)
        if inode is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return inode

    def found(self, parent: Inode, name: str, node: Node, attributes: Attributes, caching: Caching) -> Inode:
        """Return the inode of a looked-up node, and count one more lookup."""
        self._numbers.know(node.path, node.identity)
        inode = self._known(parent, name, placed(node), attributes, caching)
        if caching is LASTING or caching is MOMENTARY:
            self._keep_node(inode, node)
        return inode

    def listed(self, parent: Inode, name: str, path: TreePath, identity: int, attributes: Attributes) -> Inode:
        """Return the inode of an immutable file in a listing, and count one more lookup."""
        return self._known(parent, name, Placed(path, identity, identity, stat.S_IFREG), attributes, LASTING)

    def glimpsed(self, path: TreePath, attributes: Attributes) -> tuple[int | None, int, Inode | None]:
        """Return the key and the number to tell in a walk of a node that is kept nowhere here.

        A request by such a key gets ESTALE, so that the kernel looks the name up; only a directory can be opened by it.
        The key is None if it is that of another node, and a directory that is known counts one more lookup.
        """
        computed = self._numbers.computed(path)
        if computed is None:
            # The same key each time: otherwise the kernel would drop the one before, and distrust the whole listing.
            return self._numbers.of_name(path) or self._numbers.fresh(), digest(path), None
        known = self._by_key.get(computed)
        if known is None:
            return computed, self._lineages.get(computed, (0, computed))[1], None
        if known.caching is not DIRECTORY or known.path != path:
            return None, computed, None
        known.attributes = attributes
        known.lookups += 1
        return computed, computed, known

    def _revived(self, key: int) -> Inode | None:
        """Return an inode of a partition's directory that the kernel knows from a walk, None for any other key.

        It serves one request. A lookup of the name makes one that is kept.
        """
        path = self._numbers.directory_of(key)
        parent = None if path is None else self._shared.get(self._numbers.computed(path.log) or 0)
        if path is None or parent is None:
            return None
        what = Placed(path, None, 0, stat.S_IFDIR)
        return Inode(key, key, what, Attributes(), DIRECTORY, parent, os.fsencode(str(path.view)))

    def _known(self, parent: Inode, name: str, what: Placed, attributes: Attributes, caching: Caching) -> Inode:
        computed = self._numbers.computed(what.path)
        # A directory with two names gets an inode for each: the kernel allows a directory one name.
        place = (parent.path, what.path) if computed is None else computed
        inode = self._shared.get(place) if caching.is_shared else None
        if inode is None or inode.identity != what.identity:
            key = self._numbers.fresh() if computed is None or computed in self._by_key else computed
            number = digest(what.path) if computed is None else computed
            if inode is not None:  # a replacement gets another number, unless it has the same lineage
                number = inode.number if inode.lineage == what.lineage else key
            if computed is not None and caching is GROWING:
                number = self._number_of_lineage(computed, what.lineage)
            inode = Inode(key, number, what, attributes, caching, parent, os.fsencode(name))
            self._add(inode, place)
        inode.attributes = attributes
        inode.lookups += 1
        return inode

    def _number_of_lineage(self, computed: int, lineage: int) -> int:
        """Return the shown number of a stream: another for each lineage, even if the kernel forgot it in between."""
        known = self._lineages.get(computed)
        if known is None:
            known = (lineage, computed)
        elif known[0] != lineage:
            known = (lineage, self._numbers.fresh())
        self._lineages[computed] = known
        return known[1]

    def removed(self, parent: Inode, path: TreePath | None) -> None:
        """Note a removal through the mount: for the kernel the inode is dead, even if another node takes its place."""
        if path is not None:
            self._shared.pop((parent.path, path), None)

    def _add(self, inode: Inode, place: Place) -> None:
        inode.place = place
        self._by_key[inode.key] = inode
        if inode.caching.is_shared:
            self._shared[place] = inode
        if inode.log is not None and inode.caching is LASTING:
            self._lasting[inode.log][inode.key] = inode
        elif inode.log is not None and inode.caching is GROWING:
            self._growing[inode.log][inode.key] = inode

    def _keep_node(self, inode: Inode, node: Node) -> None:
        """Keep the node for the next requests, and drop the least recently used, or the last one that is large."""
        size_bytes = node.held_bytes
        if size_bytes > LARGE_BYTES:
            self.drop_large()
            self._large = inode
            size_bytes = 0
        if inode.kept_node is None or size_bytes:
            self._with_nodes.append((inode, size_bytes))
            self._nodes_bytes += size_bytes
        while len(self._with_nodes) > _NODES_MAX or self._nodes_bytes > _NODES_BYTES_MAX:
            oldest, oldest_bytes = self._with_nodes.popleft()
            oldest.kept_node = None
            self._nodes_bytes -= oldest_bytes
        inode.kept_node = node

    def drop_large(self, _: int = 0) -> None:
        """Drop the node that holds much memory. Any thread may call this."""
        large, self._large = self._large, None
        if large is not None:
            large.kept_node = None

    def number_of_name(self, path: TreePath | None) -> int:
        """Return the number of a name in a listing: as a rule that of a later lookup."""
        computed = None if path is None else self._numbers.computed(path)
        return digest(path) if computed is None else computed

    def forget(self, key: int, lookups: int) -> None:
        """Take back this many lookups."""
        inode = self._by_key.get(key)
        if inode is None or inode is self._root:
            return
        inode.lookups -= lookups
        if inode.lookups > 0:
            return
        del self._by_key[key]
        inode.kept_node = None
        if self._shared.get(inode.place) is inode:
            del self._shared[inode.place]
        if inode.log is not None:
            for table in (self._lasting, self._growing):
                known = table.get(inode.log, {})
                known.pop(key, None)
                if not known:
                    table.pop(inode.log, None)

    def surplus(self) -> list[Inode]:
        """Return some files that the kernel is to forget, those that it has known longest; none while it knows few.

        One that it does not forget, since a process has it open, is among the last to be returned again.
        """
        count = min(len(self._by_key) - FILES_MAX, _SURPLUS_MAX)
        if count <= 0:
            return []
        unused = (inode for inode in self._by_key.values() if inode.caching is not DIRECTORY and not inode.readings)
        found = list(islice(unused, count))
        for inode in found:
            self._by_key[inode.key] = self._by_key.pop(inode.key)
        return found

    def watched_logs(self) -> list[LogPath]:
        """Return the logs with immutable files that the kernel knows, the longest known first."""
        return list(self._lasting)

    def lasting(self, log: LogPath) -> list[Inode]:
        """Return the immutable files of a log that the kernel knows."""
        return list(self._lasting.get(log, {}).values())

    def followed(self) -> list[Inode]:
        """Return the open streams of logs."""
        growing = (inode for known in self._growing.values() for inode in known.values())
        return [inode for inode in growing if inode.readings and isinstance(inode.path, PartitionFilePath)]

    def growing(self, log: LogPath) -> Iterable[Inode]:
        """Return the growing files of a log that the kernel knows."""
        return self._growing[log].values() if log in self._growing else ()
