"""What the kernel knows: each node by its inode, from the lookup that told of it until the kernel forgets it."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.paths import PartitionFilePath
from kafkafs.mount.caching import DIRECTORY, GROWING, LASTING
from kafkafs.mount.inode_numbers import ROOT_NUMBER, InodeNumbers, digest, log_of
from kafkafs.mount.pace import Pace
from kafkafs.tree.node import Directory, Link

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from kafkafs.locator.paths import LogPath, TreePath
    from kafkafs.mount.caching import Caching
    from kafkafs.tree.node import Attributes, Node, Reading

    # A number that is computed, or the path of the directory that a name was found in, and the path it leads to.
    Place: TypeAlias = "tuple[TreePath, TreePath] | int"

_NODES_MAX: Final = 256


class Placed(NamedTuple):
    """What is at a path: as a node says it, or a listing that made no node."""

    path: TreePath
    identity: int
    lineage: int
    type: int


class Inode:
    """A node that the kernel knows.

    `key` is what the kernel calls it by, `number` what people see as `st_ino`. Where the descriptors of a path share
    nothing, each lookup finds an inode of its own, by another key and with the same number. `attributes` are those that
    the kernel last heard of; `readings` are open. `lasting_node` is at hand for a while after a lookup, where it will
    not have changed by then.
    """

    __slots__ = (
        "attributes",
        "caching",
        "identity",
        "key",
        "lasting_node",
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
        self.attributes = attributes
        self.caching = caching
        self.parent = parent or self
        self.name = name
        self.lookups = 0
        self.readings: list[Reading] = []
        self.lasting_node: Node | None = None
        self.quick: Pace = Pace() if caching is DIRECTORY else self.parent.quick
        """How quick finding and opening small files in this directory has been."""
        self.writes: Pace = Pace() if caching is DIRECTORY else self.parent.writes


def placed(node: Node) -> Placed:
    """What a node is, and where."""
    kind = stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFLNK if isinstance(node, Link) else stat.S_IFREG
    return Placed(node.path, node.identity, node.lineage, kind)


class Inodes:
    """The inodes, for the event loop's thread alone."""

    def __init__(self, root: Node, attributes: Attributes) -> None:
        self._numbers = InodeNumbers()
        self._root = Inode(ROOT_NUMBER, ROOT_NUMBER, placed(root), attributes, DIRECTORY, None, b"")
        self._by_key: dict[int, Inode] = {ROOT_NUMBER: self._root}
        self._shared: dict[Place, Inode] = {}
        self._lasting: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
        self._growing: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
        self._lineages: dict[int, tuple[int, int]] = {}
        self._with_nodes: deque[Inode] = deque()

    def __len__(self) -> int:
        return len(self._by_key)

    def __getitem__(self, key: int) -> Inode:
        try:
            return self._by_key[key]
        except KeyError:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE)) from None

    def found(self, parent: Inode, name: str, node: Node, attributes: Attributes, caching: Caching) -> Inode:
        """The inode of what a name led to, which the kernel now knows once more."""
        self._numbers.know(node.path, node.identity)
        inode = self._known(parent, name, placed(node), attributes, caching)
        if caching is LASTING:
            self._keep_node(inode, node)
        return inode

    def listed(self, parent: Inode, name: str, path: TreePath, identity: int, attributes: Attributes) -> Inode:
        """The inode of a lasting file that was told of in a listing, so that the kernel now knows it once more."""
        return self._known(parent, name, Placed(path, identity, identity, stat.S_IFREG), attributes, LASTING)

    def _known(self, parent: Inode, name: str, what: Placed, attributes: Attributes, caching: Caching) -> Inode:
        computed = self._numbers.computed(what.path)
        # A directory that two names lead to is one for each: the kernel knows a directory by a single name.
        place = (parent.path, what.path) if computed is None else computed
        inode = self._shared.get(place) if caching.is_shared else None
        if inode is None or inode.identity != what.identity:
            key = self._numbers.fresh() if computed is None or computed in self._by_key else computed
            number = digest(what.path) if computed is None else computed
            if inode is not None:  # what took another's place is seen to be another, unless it goes on with it
                number = inode.number if inode.lineage == what.lineage else key
            if computed is not None and caching is GROWING:
                number = self._number_of_lineage(computed, what.lineage)
            inode = Inode(key, number, what, attributes, caching, parent, os.fsencode(name))
            self._add(inode, place)
        inode.attributes = attributes
        inode.lookups += 1
        return inode

    def _number_of_lineage(self, computed: int, lineage: int) -> int:
        """What people see of a stream: another number with each lineage, even if the kernel forgot it in between."""
        known = self._lineages.get(computed)
        if known is None:
            known = (lineage, computed)
        elif known[0] != lineage:
            known = (lineage, self._numbers.fresh())
        self._lineages[computed] = known
        return known[1]

    def removed(self, parent: Inode, path: TreePath | None) -> None:
        """What was there was removed through the mount: for the kernel it is dead, whatever comes in its place."""
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
        """Have the node at hand for what is asked next; the longest unused goes."""
        if inode.lasting_node is None:
            self._with_nodes.append(inode)
            if len(self._with_nodes) > _NODES_MAX:
                self._with_nodes.popleft().lasting_node = None
        inode.lasting_node = node

    def number_of_name(self, path: TreePath | None) -> int:
        """The number in a listing of what a name leads to, which nobody need have looked up: as a rule, as later."""
        computed = None if path is None else self._numbers.computed(path)
        return digest(path) if computed is None else computed

    def forget(self, key: int, lookups: int) -> None:
        """The kernel knows it so many times less."""
        inode = self._by_key.get(key)
        if inode is None or inode is self._root:
            return
        inode.lookups -= lookups
        if inode.lookups > 0:
            return
        del self._by_key[key]
        if self._shared.get(inode.place) is inode:
            del self._shared[inode.place]
        if inode.log is not None:
            for table in (self._lasting, self._growing):
                known = table.get(inode.log, {})
                known.pop(key, None)
                if not known:
                    table.pop(inode.log, None)

    def watched_logs(self) -> list[LogPath]:
        """The logs with lasting files that the kernel knows."""
        return list(self._lasting)

    def lasting(self, log: LogPath) -> list[Inode]:
        """The lasting files of a log that the kernel knows."""
        return list(self._lasting.get(log, {}).values())

    def followed(self) -> list[Inode]:
        """The streams of logs that are open."""
        growing = (inode for known in self._growing.values() for inode in known.values())
        return [inode for inode in growing if inode.readings and isinstance(inode.path, PartitionFilePath)]

    def growing(self, log: LogPath) -> Iterable[Inode]:
        """The files that grow with a log and that the kernel knows."""
        return self._growing[log].values() if log in self._growing else ()
