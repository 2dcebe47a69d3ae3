"""What `stat` says: a node's attributes with owner and mode, and how long the kernel may cache them."""

from __future__ import annotations

import os
import stat
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

import pyfuse3

from kafkafs.mount.caching import LOOK_S
from kafkafs.mount.listing import type_of_path
from kafkafs.mount.pyfuse3_internals import set_key

if TYPE_CHECKING:
    from pathlib import Path

    from kafkafs.locator.paths import TreePath
    from kafkafs.mount.inodes import Inode, Inodes
    from kafkafs.mount.invalidation import Growth
    from kafkafs.mount.options import Ownership
    from kafkafs.tree.node import Attributes

_PLACE_S: Final = 1.0
_PLACES_MAX: Final = 256
_FILE_BITS: Final = 0o666
_DIRECTORY_BITS: Final = 0o777
_WRITE_BITS: Final = 0o222


class _Owner(NamedTuple):
    uid: int
    gid: int
    mode: int


class EntryMaker:
    """Makes the entries that the kernel gets for nodes."""

    def __init__(self, ownership: Ownership, default_place: Path, growth: Growth) -> None:
        self._ownership = ownership
        self._growth = growth
        self._default_place = default_place
        self._owners: dict[Path, tuple[float, _Owner]] = {}

    def of(self, inode: Inode) -> pyfuse3.EntryAttributes:
        """Return the entry of a node that the kernel knows."""
        entry = self.of_listed(inode.key, inode.number, inode.type, inode.attributes)
        entry.entry_timeout = inode.caching.entry_s
        entry.attr_timeout = self._growth.attributes_s(inode)
        return entry

    def of_listed(self, key: int, number: int, node_type: int, attributes: Attributes) -> pyfuse3.EntryAttributes:
        """Return the entry of a node that is known from a listing alone, for a moment."""
        owner = self._owner(attributes.place or self._default_place)
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = number
        if key != number:
            set_key(entry, key)
        entry.entry_timeout = entry.attr_timeout = LOOK_S
        entry.st_mode = node_type | self._mode(node_type, owner.mode, is_writable=attributes.is_writable)
        entry.st_nlink = 1  # of directories too: 1 tells tools that subdirectories are not counted
        entry.st_uid = owner.uid
        entry.st_gid = owner.gid
        entry.st_size = attributes.size_bytes or 0
        entry.st_blocks = attributes.disk_blocks
        entry.st_atime_ns = entry.st_mtime_ns = entry.st_ctime_ns = attributes.modified_ms * 1_000_000
        return entry

    def of_walked(
        self, path: TreePath, attributes: Attributes, inodes: Inodes
    ) -> tuple[Inode | None, pyfuse3.EntryAttributes]:
        """Return the entry of a name in a walk, and the inode if that of a directory counts one more lookup."""
        key, number, inode = inodes.glimpsed(path, attributes)
        if inode is not None:
            return inode, self.of(inode)
        if key is None:
            return None, self.of_name(number, type_of_path(path))
        return None, self.of_listed(key, number, type_of_path(path), attributes)

    def of_name(self, number: int, node_type: int) -> pyfuse3.EntryAttributes:
        """Return the entry of a name in a listing: its number and type, nothing that the kernel caches."""
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = number
        entry.st_mode = node_type
        set_key(entry, 0)
        return entry

    def _mode(self, node_type: int, directory_mode: int, *, is_writable: bool) -> int:
        if node_type == stat.S_IFLNK:
            return _DIRECTORY_BITS
        umask = self._ownership.umask
        bits = directory_mode if umask is None else _DIRECTORY_BITS & ~umask
        if node_type == stat.S_IFDIR:
            return bits & _DIRECTORY_BITS
        return bits & (_FILE_BITS if is_writable else _FILE_BITS & ~_WRITE_BITS)

    def _owner(self, place: Path) -> _Owner:
        """Return the owner and mode of a directory in the store, read again now and then."""
        now_s = monotonic()
        known = self._owners.get(place)
        if known is not None and now_s - known[0] < _PLACE_S:
            return known[1]
        try:
            found = os.stat(place)  # noqa: PTH116 -- pathlib costs as much again
            owner = _Owner(found.st_uid, found.st_gid, found.st_mode)
        except OSError:
            owner = known[1] if known is not None else _Owner(os.getuid(), os.getgid(), 0o500)
        uid, gid, _ = self._ownership
        owner = _Owner(owner.uid if uid is None else uid, owner.gid if gid is None else gid, owner.mode)
        if len(self._owners) >= _PLACES_MAX:
            self._owners.pop(next(iter(self._owners)))
        self._owners[place] = (now_s, owner)
        return owner
