"""What the kernel may keep of a file, and for how long, so that it never serves what is no longer so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.paths import PartitionFile, PartitionFilePath, SegmentPath
from kafkafs.tree.node import Directory, Link, WritableFile

if TYPE_CHECKING:
    from kafkafs.tree.node import Attributes, Node

LOOK_S: Final = 0.5
"""How often what may go away is looked at, so that it is gone within a second."""
LONG_S: Final = 300.0


class Caching(NamedTuple):
    """The times that names and attributes are good for, whether pages outlive a descriptor, and who shares them."""

    entry_s: float
    attributes_s: float
    keeps_pages: bool = False
    is_shared: bool = True  # one inode for all descriptors of a path; otherwise each has pages and sizes of its own
    has_pages: bool = True  # otherwise each read and write is handed to this process, and `stat` says the size now


LASTING: Final = Caching(LONG_S, LONG_S, keeps_pages=True)
"""What never changes; a watcher takes it out of the kernel when it goes away."""
DIRECTORY: Final = Caching(LOOK_S, LOOK_S)
GROWING: Final = Caching(LOOK_S, LOOK_S, keeps_pages=True)
"""What only grows: bytes that were there stay. Appending through the mount makes the kernel ask for sizes at once."""
MOMENTARY: Final = Caching(0.0, 0.0, is_shared=False)
"""Generated at each open: descriptors must not see one another's bytes."""
WRITTEN: Final = Caching(0.0, 0.0, has_pages=False)
"""What is written. The kernel keeps `flock` and `fcntl` locks by inode, so all descriptors of a path have the same one;
without pages they still do not see one another's bytes. The price: the kernel has writers of one inode take turns."""
POINTING: Final = Caching(0.0, 0.0)

_GROWING_FILES: Final = frozenset({PartitionFile.VALUES, PartitionFile.RECORDS})


def caching_of(node: Node, attributes: Attributes) -> Caching:
    """What the kernel may keep of a node with these attributes."""
    if attributes.is_lasting:
        return LASTING
    if isinstance(node, Directory):
        return DIRECTORY
    if isinstance(node, Link):
        return POINTING
    if isinstance(node, WritableFile):
        return WRITTEN
    path = node.path
    if isinstance(path, SegmentPath) or (isinstance(path, PartitionFilePath) and path.file in _GROWING_FILES):
        return GROWING
    return MOMENTARY
