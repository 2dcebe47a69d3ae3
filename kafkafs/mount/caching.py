"""What the kernel may keep of a file, and for how long, so that it never serves what is no longer so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.paths import PartitionFile, PartitionFilePath, SegmentPath
from kafkafs.tree.node import Directory, Link

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
    is_shared: bool = True  # by all descriptors of one path; otherwise each has pages and sizes of its own


LASTING: Final = Caching(LONG_S, LONG_S, keeps_pages=True)
"""What never changes; a watcher takes it out of the kernel when it goes away."""
DIRECTORY: Final = Caching(LOOK_S, LOOK_S)
GROWING: Final = Caching(LOOK_S, LOOK_S, keeps_pages=True)
"""What only grows: bytes that were there stay. Appending through the mount makes the kernel ask for sizes at once."""
MOMENTARY: Final = Caching(0.0, 0.0, is_shared=False)
"""What each open finds anew: descriptors must not see one another's bytes, nor the kernel have writers wait in line."""
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
    path = node.path
    if isinstance(path, SegmentPath) or (isinstance(path, PartitionFilePath) and path.file in _GROWING_FILES):
        return GROWING
    return MOMENTARY
