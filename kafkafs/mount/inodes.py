"""What the kernel knows: each node by its inode, from the lookup that told of it until the kernel forgets it."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from kafkafs.mount.caching import DIRECTORY, GROWING, LASTING
from kafkafs.mount.inode_numbers import ROOT_NUMBER, InodeNumbers, digest, log_of
from kafkafs.mount.pace import Pace
from kafkafs.tree.node import Directory, Link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkafs.locator.paths import LogPath, TreePath
    from kafkafs.mount.caching import Caching
    from kafkafs.tree.node import Attributes, Node, Reading

_NODES_MAX: Final = 256


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
        node: Node,
        attributes: Attributes,
        caching: Caching,
        parent: Inode | None,
        name: bytes,
    ) -> None:
        self.key = key
        self.number = number
        self.place: TreePath | int = node.path
        self.path: TreePath = node.path
        self.identity = node.identity
        self.log = log_of(node.path)
        self.attributes = attributes
        self.caching = caching
        self.parent = parent or self
        self.name = name
        self.lookups = 0
        self.readings: list[Reading] = []
        self.lasting_node: Node | None = None
        self.type = type_of(node)
        self.quick: Pace = Pace() if caching is DIRECTORY else self.parent.quick
        """How quick finding and opening small files in this directory has been."""
        self.writes: Pace = Pace() if caching is DIRECTORY else self.parent.writes


def type_of(node: Node) -> int:
    """Directory, link or file, as in a mode."""
    if isinstance(node, Directory):
        return stat.S_IFDIR
    return stat.S_IFLNK if isinstance(node, Link) else stat.S_IFREG


class Inodes:
    """The inodes, for the event loop's thread alone."""

    def __init__(self, root: Node, attributes: Attributes) -> None:
        self._numbers = InodeNumbers()
        self._root = Inode(ROOT_NUMBER, ROOT_NUMBER, root, attributes, DIRECTORY, None, b"")
        self._by_key: dict[int, Inode] = {ROOT_NUMBER: self._root}
        self._shared: dict[TreePath | int, Inode] = {root.path: self._root}
        self._lasting: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
        self._growing: defaultdict[LogPath, dict[int, Inode]] = defaultdict(dict)
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
        computed = self._numbers.computed(node.path)
        place = node.path if computed is None else computed
        inode = self._shared.get(place) if caching.is_shared else None
        if inode is None or inode.identity != node.identity:
            key = self._numbers.fresh() if computed is None or computed in self._by_key else computed
            number = key if inode is not None else computed  # what took another's place is seen to be another
            if computed is None or number is None:
                number = digest(node.path, node.identity)
            inode = Inode(key, number, node, attributes, caching, parent, os.fsencode(name))
            self._add(inode, place)
        inode.attributes = attributes
        inode.lookups += 1
        if caching is LASTING:
            self._keep_node(inode, node)
        return inode

    def _add(self, inode: Inode, place: TreePath | int) -> None:
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

    def growing(self, log: LogPath) -> Iterable[Inode]:
        """The files that grow with a log and that the kernel knows."""
        return self._growing[log].values() if log in self._growing else ()
