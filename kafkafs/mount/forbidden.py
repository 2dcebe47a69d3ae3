"""The operations that the tree never allows: rename, unlink, link, create, and setting attributes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pyfuse3

from kafkafs.mount.guard import guarded
from kafkafs.tree.errors import NotPermittedError

if TYPE_CHECKING:
    from pyfuse3 import (
        EntryAttributes,
        FileInfo,
        FileNameT,
        FlagT,
        InodeT,
        ModeT,
        RequestContext,
        XAttrNameT,
    )

    from kafkafs.mount.inodes import Inodes


class ForbiddenOperations(pyfuse3.Operations):
    """Handlers that only refuse. On a read-only mount the kernel refuses by itself."""

    inodes: Inodes

    def _forbid(self, parent: InodeT, name: FileNameT, reason: str) -> NoReturn:
        path = str(self.inodes[parent].path).rstrip("/")
        raise NotPermittedError(f"{path}/{os.fsdecode(name)}: {reason}")

    @guarded(is_write=True)
    async def create(
        self,
        parent_inode: InodeT,
        name: FileNameT,
        mode: ModeT,  # noqa: ARG002 -- the kernel's arguments, here and below
        flags: FlagT,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> tuple[FileInfo, EntryAttributes]:
        """Files are there because the log is."""
        self._forbid(parent_inode, name, "no file of this name is there, and none can be made")

    @guarded(is_write=True)
    async def mknod(
        self,
        parent_inode: InodeT,
        name: FileNameT,
        mode: ModeT,  # noqa: ARG002
        rdev: int,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> EntryAttributes:
        """As `create`."""
        self._forbid(parent_inode, name, "no file can be made")

    @guarded(is_write=True)
    async def symlink(
        self,
        parent_inode: InodeT,
        name: FileNameT,
        target: FileNameT,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> EntryAttributes:
        """As `create`."""
        self._forbid(parent_inode, name, "no link can be made")

    @guarded(is_write=True)
    async def link(
        self,
        inode: InodeT,  # noqa: ARG002
        new_parent_inode: InodeT,
        new_name: FileNameT,
        ctx: RequestContext,  # noqa: ARG002
    ) -> EntryAttributes:
        """As `create`."""
        self._forbid(new_parent_inode, new_name, "no link can be made")

    @guarded(is_write=True)
    async def unlink(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> None:  # noqa: ARG002
        """Records go by retention, compaction and log-start-offset."""
        self._forbid(parent_inode, name, "files cannot be removed; log-start-offset deletes records")

    @guarded(is_write=True)
    async def rename(
        self,
        parent_inode_old: InodeT,
        name_old: FileNameT,
        parent_inode_new: InodeT,  # noqa: ARG002
        name_new: FileNameT,
        flags: FlagT,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> None:
        """Names say what is there."""
        self._forbid(parent_inode_old, name_old, f"nothing can be renamed (to {os.fsdecode(name_new)})")

    @guarded(is_write=True)
    async def setxattr(
        self,
        inode: InodeT,
        name: XAttrNameT,
        value: bytes,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> None:
        """Attributes say what the log says."""
        raise NotPermittedError(f"{self.inodes[inode].path}: {os.fsdecode(name)} cannot be set")

    @guarded(is_write=True)
    async def removexattr(self, inode: InodeT, name: XAttrNameT, ctx: RequestContext) -> None:  # noqa: ARG002
        """As `setxattr`."""
        raise NotPermittedError(f"{self.inodes[inode].path}: {os.fsdecode(name)} cannot be removed")
