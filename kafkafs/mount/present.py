"""The nodes that inodes stand for at present, for requests that the kernel permits by what it was told before.

The kernel decides who may make a request by attributes that it keeps for a while. If an inode's node was replaced, or
not all users may read its log whom these attributes let in, the request ends with ESTALE. Then the kernel looks the
names up once more, decides by what they are now, and repeats the request.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kafkafs.mount.caching import MOMENTARY
from kafkafs.tree.errors import GoneError
from kafkafs.tree.generated_file import GeneratedFile
from kafkafs.tree.node import File

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.mount.inodes import Inode
    from kafkafs.tree.node import Attributes, Node, NodeTree, Reading


class Present:
    """Finds the nodes in a tree. Any thread may ask."""

    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree

    def node(self, inode: Inode) -> Node:
        """Return the present node, or one whose text was generated a moment ago; raises ESTALE if it was replaced."""
        kept = inode.kept_node
        if isinstance(kept, GeneratedFile) and kept.is_made:
            return kept
        node = self._tree.node(inode.path)
        if inode.identity is None:  # of a directory that was only listed
            inode.identity, inode.lineage = node.identity, node.lineage
        if node.identity != inode.identity:
            raise _stale(inode)
        return node

    def check_granted(self, inode: Inode, node: Node | None = None) -> None:
        """Raise ESTALE if not all users may have what was found whom the kernel lets ask for it.

        To be called after it was found: what was replaced meanwhile counts too.
        """
        if self._tree.is_narrower(node, inode.log, inode.attributes.access):
            raise _stale(inode)

    def opened(self, inode: Inode, node: Node | None = None) -> Reading:
        """Open a file, as the node that was kept of it or as the present one."""
        node = self.node(inode) if node is None else node
        assert isinstance(node, File)
        reading = node.open()
        try:
            self.check_granted(inode, node)
        except OSError:
            reading.close()
            raise
        return reading

    def opened_with_size(self, inode: Inode, first: Reading | None) -> tuple[Reading, int | None]:
        """Open a file that changes, or take the first descriptor's reading; return the size, too."""
        if first is not None:
            self.check_granted(inode)
            return first, first.size_bytes()
        reading = self.opened(inode)
        if inode.caching is MOMENTARY:
            inode.kept_node = None
        return reading, reading.size_bytes()

    def attributes(self, inode: Inode, readings: Sequence[Reading]) -> Attributes:
        """Return what `stat` says now. An open file keeps its attributes even if its name is gone."""
        attributes, failure = inode.attributes, None
        try:
            if not readings or inode.caching is not MOMENTARY:  # what is generated does not change once it is open
                attributes = self.node(inode).attributes()
        except Exception as error:
            if not readings:
                raise
            failure = error
        if not readings:
            return attributes
        try:
            return attributes._replace(size_bytes=readings[0].size_bytes())
        except GoneError as error:  # a request by name gets the replacement
            raise failure or error from None


def _stale(inode: Inode) -> OSError:
    return OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(inode.path))
