"""What `stat` says: a node's attributes with owner and mode, and how long the kernel may cache them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

import pyfuse3

from kafkafs.locator.escaping import NAME_BYTES_MAX
from kafkafs.mount.caching import LONG_S, LOOK_S, RIGHTS_S
from kafkafs.mount.listing import type_of_path
from kafkafs.mount.pyfuse3_internals import set_key
from storage.files import Access

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from kafkafs.locator.paths import TreePath
    from kafkafs.mount.inodes import Inode, Inodes
    from kafkafs.mount.invalidation import Growth
    from kafkafs.mount.options import Ownership
    from kafkafs.tree.node import Attributes

_FILE_BITS: Final = 0o666
_DIRECTORY_BITS: Final = 0o777
_WRITE_BITS: Final = 0o222


class EntryMaker:
    """Makes the entries that the kernel gets for nodes; `of_store` returns the access to those that say none."""

    def __init__(
        self, ownership: Ownership, of_store: Callable[[], Access], growth: Growth, *, is_shared: bool
    ) -> None:
        self._ownership = ownership
        self._is_as_given = ownership == (None, None, None)
        self._of_store = of_store
        self._growth = growth
        # A descriptor that was opened without reading reaches a file without a look at its directories.
        self._attributes_max_s = RIGHTS_S if is_shared else LONG_S

    def of(self, inode: Inode) -> pyfuse3.EntryAttributes:
        """Return the entry of a node that the kernel knows."""
        attributes = inode.attributes
        if inode.tail is not None:
            attributes = inode.tail.limited(attributes, is_open=bool(inode.readings))
        entry = self.of_listed(inode.key, inode.number, inode.type, attributes)
        entry.entry_timeout = inode.caching.entry_s
        is_whole = attributes.size_bytes == inode.attributes.size_bytes
        entry.attr_timeout = min(self._growth.attributes_s(inode), self._attributes_max_s) if is_whole else 0.0
        return entry

    def of_listed(self, key: int, number: int, node_type: int, attributes: Attributes) -> pyfuse3.EntryAttributes:
        """Return the entry of a node that is known from a listing alone, for a moment."""
        owner = attributes.access or self._of_store()
        if not self._is_as_given:
            owner = self._given(owner)
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

    def _mode(self, node_type: int, bits: int, *, is_writable: bool) -> int:
        if node_type == stat.S_IFLNK:
            return _DIRECTORY_BITS
        if node_type == stat.S_IFDIR:
            return bits
        if node_type != stat.S_IFREG:  # it is not opened
            return 0
        return bits & (_FILE_BITS if is_writable else _FILE_BITS & ~_WRITE_BITS)

    def _given(self, access: Access) -> Access:
        """Return the access as the options change it: what they say of owner, group and mode is meant so."""
        uid, gid, umask = self._ownership
        mode = access.mode if umask is None else _DIRECTORY_BITS & ~umask
        if gid is not None and umask is None:  # the members of the group below are others now
            mode &= ~0o007 | (mode >> 3 & 0o007)
        return Access(access.uid if uid is None else uid, access.gid if gid is None else gid, mode)


def space_of(found: os.statvfs_result) -> pyfuse3.StatvfsData:
    """Return what `df` says, from the file system that the store is on."""
    data = pyfuse3.StatvfsData()
    for field in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
        setattr(data, field, getattr(found, field))
    data.f_namemax = NAME_BYTES_MAX
    return data
