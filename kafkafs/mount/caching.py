"""What the kernel may cache of a file, and for how long, so that it never serves outdated contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.views import Kind
from kafkafs.tree.node import Stranger

if TYPE_CHECKING:
    from kafkafs.tree.node import Attributes, Node

LOOK_S: Final = 0.5
"""How often removable contents are checked, so that they vanish within a second."""
LONG_S: Final = 300.0
RIGHTS_S: Final = 5.0
"""How long the kernel caches owner and mode at most in a mount that lets other users in."""


class Caching(NamedTuple):
    """How long names and attributes are valid, whether pages outlive a descriptor, and which descriptors share them."""

    entry_s: float
    attributes_s: float
    keeps_pages: bool = False
    is_shared: bool = True  # one inode for all descriptors of a path; otherwise each has pages and sizes of its own
    has_pages: bool = True  # otherwise each read and write is handed to this process, and `stat` says the size now


LASTING: Final = Caching(LONG_S, LONG_S, keeps_pages=True)
"""For immutable files; a watcher invalidates them when they are removed."""
DIRECTORY: Final = Caching(LOOK_S, LOOK_S)
GROWING: Final = Caching(LOOK_S, LOOK_S, keeps_pages=True)
"""For files that only grow. Appending through the mount makes the kernel ask for sizes at once."""
MOMENTARY: Final = Caching(0.0, 0.0, is_shared=False)
"""Generated at each open: descriptors must not see one another's bytes."""
WRITTEN: Final = Caching(0.0, 0.0, has_pages=False)
"""For written files. The kernel keeps `flock` and `fcntl` locks by inode, so all descriptors of a path share one;
without pages they still do not see one another's bytes. The price: the kernel makes writers of one inode take turns."""
POINTING: Final = Caching(0.0, 0.0)

_OF_KIND: Final = {
    Kind.DIRECTORY: DIRECTORY,
    Kind.LINK: POINTING,
    Kind.STORED: GROWING,
    Kind.STREAM: GROWING,
    Kind.SETTING: WRITTEN,
    Kind.INPUT: WRITTEN,
}


def caching_of(node: Node, attributes: Attributes) -> Caching:
    """Return what the kernel may cache of a node with these attributes."""
    if attributes.is_lasting:
        return LASTING
    if isinstance(node, Stranger):
        return POINTING
    return _OF_KIND.get(node.path.view.kind, MOMENTARY)
