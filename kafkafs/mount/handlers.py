"""The handlers of the kernel's requests, which answer from the nodes of a tree."""

from __future__ import annotations

import errno
import os
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import pyfuse3

from kafkafs.locator.escaping import NAME_BYTES_MAX
from kafkafs.locator.paths import RootPath
from kafkafs.locator.views import Kind
from kafkafs.mount.attributes import EntryMaker, space_of
from kafkafs.mount.caching import LASTING, caching_of
from kafkafs.mount.dispatch import DirectoryPaces, RequestLoop, in_thread
from kafkafs.mount.forbidden import ForbiddenOperations
from kafkafs.mount.guard import Refusals, guarded
from kafkafs.mount.inodes import Inodes
from kafkafs.mount.invalidation import Growth, Watcher, forget_attributes
from kafkafs.mount.listing import Listing, Walks, can_be_quick, is_directory_of_log, path_of_name, type_of_path
from kafkafs.mount.open_files import FileForReading, FileForWriting, expect_seek, release, sync_log
from kafkafs.mount.present import Present
from kafkafs.mount.readers import KILLING, Program, Waits
from kafkafs.tree.errors import NotPermittedError
from kafkafs.tree.node import Attributes, Directory, Link, Stranger, WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyfuse3 import (
        EntryAttributes,
        FileHandleT,
        FileInfo,
        FileNameT,
        FlagT,
        InodeT,
        ModeT,
        ReaddirToken,
        RequestContext,
        SetattrFields,
        StatvfsData,
        XAttrNameT,
    )
    from typing_extensions import Buffer

    from kafkafs.locator.paths import LogPath
    from kafkafs.mount.inodes import Inode
    from kafkafs.mount.metrics import Metrics
    from kafkafs.mount.open_files import OpenFile
    from kafkafs.mount.options import Ownership
    from kafkafs.tree.node import Node, NodeTree, Reading, Writing
    from storage.files import Access

TARGET_BYTES_MAX: Final = 4095
TOLD_MAX: Final = 4096
"""The kernel keeps a kilobyte for each file in a listing's reply, so a listing has at most this many."""


class TreeOperations(ForbiddenOperations):
    """The handlers. Each ends with an answer or an error number, and none waits for new data.

    `is_shared` with other users, or not; `is_durable` if a write is on disk when it returns. The caller runs `watcher`
    and `waits`.
    """

    supports_dot_lookup = False

    def __init__(
        self,
        tree: NodeTree,
        *,
        place: Path,
        access: Callable[[], Access],
        ownership: Ownership,
        metrics: Metrics,
        footing: Callable[[LogPath], Hashable | None],
        is_shared: bool = False,
        is_durable: bool = False,
    ) -> None:
        super().__init__()
        self.metrics = metrics
        self.refusals = Refusals()
        self.requests = RequestLoop()
        self.inodes = Inodes(tree.node(RootPath()), Attributes())
        self.watcher = Watcher(self.inodes, footing)
        self.open_files: dict[int, OpenFile] = {}
        self._tree = tree
        self._present = Present(tree)
        self._place = place
        self._growth = Growth(self.inodes, self._present.attributes)
        self._entries = EntryMaker(ownership, access, self._growth, is_shared=is_shared)
        self._is_durable = is_durable
        self.listings: dict[int, Listing] = {}
        self.waits = Waits()
        self._walks, self._paces = Walks(), DirectoryPaces()
        self._handles = count(1)

    # Finding

    @guarded()
    async def lookup(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> EntryAttributes:
        """What a name leads to."""
        if len(name) > NAME_BYTES_MAX:
            raise pyfuse3.FUSEError(errno.ENAMETOOLONG)
        return await self._found(self.inodes[parent_inode], os.fsdecode(name), ctx.pid)

    async def _found(self, parent: Inode, name: str, thread: int) -> EntryAttributes:
        work = partial(self._find, parent, name)
        if can_be_quick(parent.path, name):
            node, attributes, known = await parent.quick.run(work, wait=partial(self._wait, thread))
        elif is_directory_of_log(parent.path, name):
            node, attributes, known = await self._paces.lookup.run(work)
        else:
            if parent.log is not None:
                self._walks.looked_up()
            node, attributes, known = await parent.share.run(work, wait=partial(self._wait, thread))
        if parent.log is not None and self.watcher.known(parent.log) != known:  # it may have been removed meanwhile
            attributes = attributes._replace(is_lasting=False)
        found = self.inodes.found(parent, name, node, attributes, caching_of(node, attributes))
        await self._growth.told(found, is_found_by_name=True)
        return self._entries.of(found)

    def _find(self, parent: Inode, name: str) -> tuple[Node, Attributes, Hashable]:
        """Return also the footing of the log before the node was found."""
        known = None if parent.log is None else self.watcher.begin(parent.log)
        node = self._tree.child(parent.path, name)
        attributes = node.attributes()
        self._present.check_granted(parent)
        return node, attributes, known

    @guarded()
    async def forget(self, inode_list: Sequence[tuple[InodeT, int]]) -> None:
        """The kernel no longer knows these."""
        for key, lookups in inode_list:
            self.inodes.forget(key, lookups)

    @guarded()
    async def getattr(self, inode: InodeT, ctx: RequestContext) -> EntryAttributes:
        """Return what `stat` says now. An open file keeps its attributes even if its name is gone."""
        found = self.inodes[inode]
        readings = tuple(found.readings) if found.caching.has_pages else ()
        expect_seek(readings, ctx.pid)
        work = partial(self._present.attributes, found, readings)
        found.attributes = await found.share.run(work, wait=partial(self._wait, ctx.pid))
        await self._growth.told(found)
        return self._entries.of(found)

    @guarded()
    async def readlink(self, inode: InodeT, ctx: RequestContext) -> FileNameT:  # noqa: ARG002
        """Return the target of a link."""
        found = self.inodes[inode]

        def target() -> bytes:
            node = self._present.node(found)
            assert isinstance(node, Link | Stranger)
            told = node.target if isinstance(node, Stranger) else node.target()
            self._present.check_granted(found.parent)
            return os.fsencode(told)[:TARGET_BYTES_MAX]

        return await in_thread(target)

    # Extended attributes

    @guarded()
    async def getxattr(self, inode: InodeT, name: XAttrNameT, ctx: RequestContext) -> bytes:
        """Return one attribute. `security.*` and `system.*` are unsupported, so that tools ask only once."""
        if name.startswith((b"security.", b"system.")):
            raise pyfuse3.FUSEError(errno.EOPNOTSUPP)
        if (value := (await self._xattrs(self.inodes[inode], ctx.pid)).get(os.fsdecode(name))) is None:
            raise pyfuse3.FUSEError(errno.ENODATA)
        return value

    @guarded()
    async def listxattr(self, inode: InodeT, ctx: RequestContext) -> Sequence[XAttrNameT]:
        """The names of all."""
        return [os.fsencode(name) for name in await self._xattrs(self.inodes[inode], ctx.pid)]

    async def _xattrs(self, inode: Inode, thread: int) -> dict[str, bytes]:
        def work() -> dict[str, bytes]:
            xattrs = dict((inode.kept_node or self._present.node(inode)).xattrs())
            self._present.check_granted(inode)
            return xattrs

        run = inode.quick.run if inode.caching is LASTING else inode.share.run
        return await run(work, wait=partial(self._wait, thread))

    def _wait(self, thread: int) -> AbstractContextManager[None]:
        return self.waits.of(Program(thread))

    # Directories

    @guarded()
    async def opendir(self, inode: InodeT, ctx: RequestContext) -> FileHandleT:
        """A descriptor of a directory."""
        found = self.inodes[inode]
        walk = None if found.log is None else self._walks.opened(found.log)
        node, footing = await self._paces.opendir.run(partial(self._listed, found, is_walk=walk is not None))
        handle = next(self._handles)
        pace = self._paces.readdir if walk is None else self._paces.walk
        self.listings[handle] = Listing(found, node, pace, walk, footing, partial(self._wait, ctx.pid))
        return handle

    @guarded(is_open=True)
    async def readdir(self, fh: FileHandleT, start_id: int, token: ReaddirToken) -> None:
        """Reply with the names from a position on, the first ones with their attributes if these are known."""
        listing = self.listings[fh]
        parent, position = listing.inode, start_id
        while entries := await listing.entries(position):
            is_current = self._is_current(listing)
            for name, attributes, identity, node_type in entries:
                position += 1
                path = path_of_name(parent.path, name)
                inode = None
                # Programs such as tar take the size of a listing for the file's: an unknown one is looked up.
                is_told = attributes is not None and attributes.size_bytes is not None and position <= TOLD_MAX
                if is_told and is_current and attributes is not None and path is not None:
                    if listing.walk is not None:
                        inode, told = self._entries.of_walked(path, attributes, self.inodes)
                    else:
                        inode = self.inodes.listed(parent, name, path, identity, attributes)
                        told = self._entries.of(inode)
                elif name in {".", ".."}:
                    named = parent if name == "." else parent.parent
                    told = self._entries.of_name(named.number, named.type)
                else:
                    told = self._entries.of_name(self.inodes.number_of_name(path), node_type or type_of_path(path))
                if not pyfuse3.readdir_reply(token, os.fsencode(name), told, position):
                    if inode is not None:
                        self.inodes.forget(inode.key, 1)
                    return

    def _is_current(self, listing: Listing) -> bool:
        """True if nothing that was listed can have been removed without notice. Of a walk nothing is kept."""
        log = listing.inode.log
        return listing.walk is not None or log is None or self.watcher.known(log) == listing.footing

    @guarded()
    async def releasedir(self, fh: FileHandleT) -> None:
        """The directory is closed."""
        self.listings.pop(fh).close()

    @guarded()
    async def fsyncdir(self, fh: FileHandleT, datasync: bool) -> None:
        """Do nothing: an entry is on disk before it is visible."""

    @guarded(is_write=True)
    async def mkdir(self, parent_inode: InodeT, name: FileNameT, mode: ModeT, ctx: RequestContext) -> EntryAttributes:  # noqa: ARG002
        """Make a topic or a partition."""
        parent, text = self.inodes[parent_inode], os.fsdecode(name)
        await in_thread(lambda: self._directory(parent).make(text))
        return await self._found(parent, text, thread=0)  # the directory is made: no signal ends this request

    @guarded(is_write=True)
    async def rmdir(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> None:  # noqa: ARG002
        """Delete a topic, where the options allow that."""
        parent, text = self.inodes[parent_inode], os.fsdecode(name)
        await in_thread(lambda: self._directory(parent).remove(text))
        self.inodes.removed(parent, path_of_name(parent.path, text))
        self.watcher.wake()

    def _listed(self, inode: Inode, *, is_walk: bool) -> tuple[Directory, Hashable]:
        """Return the directory, and the footing of its log before; of a walk no file is kept."""
        footing = None if inode.log is None or is_walk else self.watcher.begin(inode.log)
        return self._directory(inode), footing

    def _directory(self, inode: Inode) -> Directory:
        node = self._present.node(inode)
        assert isinstance(node, Directory)
        self._present.check_granted(inode)
        return node

    # Files

    @guarded()
    async def open(self, inode: InodeT, flags: FlagT, ctx: RequestContext) -> FileInfo:
        """A descriptor of a file."""
        found = self.inodes[inode]
        if flags & (os.O_ACCMODE | os.O_TRUNC) != os.O_RDONLY:
            return await self._open_for_writing(found, flags)
        sync = partial(sync_log, self._tree, found)
        opened = partial(self._open_lasting, found, ctx.pid)
        if found.caching is LASTING:
            file = FileForReading(found, None, opened, sync, self.waits, thread=ctx.pid)
            return pyfuse3.FileInfo(fh=self._opened(file), keep_cache=True)
        # What is opened again through /proc has the kernel's pages of the first descriptor, and so its bytes.
        first = found.readings[0] if found.readings and not found.caching.is_shared else None
        if first is not None:
            found.readings.append(first)  # so that it stays open meanwhile
        try:
            work = partial(self._present.opened_with_size, found, first)
            reading, size_bytes = await found.share.run(work, wait=partial(self._wait, ctx.pid))
            await self._growth.opened(found, reading, size_bytes)
            is_direct = size_bytes is None or not found.caching.has_pages
            file = FileForReading(found, reading, opened, sync, self.waits, thread=ctx.pid, is_direct=is_direct)
        finally:
            if first is not None:
                release(found, first)
        if size_bytes != found.attributes.size_bytes:
            found.attributes = found.attributes._replace(size_bytes=size_bytes)
            forget_attributes(found)
        return pyfuse3.FileInfo(fh=self._opened(file), direct_io=is_direct, keep_cache=found.caching.keeps_pages)

    def _opened(self, file: OpenFile) -> int:
        handle = next(self._handles)
        self.open_files[handle] = file
        return handle

    async def _open_lasting(self, inode: Inode, thread: int) -> Reading:
        wait = partial(self.waits.of, Program(thread, KILLING))  # a process may have it mapped
        return await inode.quick.run(lambda: self._present.opened(inode, inode.kept_node), wait=wait)

    async def _open_for_writing(self, inode: Inode, flags: int) -> FileInfo:
        def opened() -> Writing:
            node = self._present.node(inode)
            if not isinstance(node, WritableFile):
                raise NotPermittedError(f"{inode.path}: this file cannot be written")
            self._present.check_granted(inode)
            return node.open_writing()

        writing = await inode.quick.run(opened)
        is_durable = self._is_durable or bool(flags & os.O_DSYNC)
        file = FileForWriting(inode, writing, inode.writes, self.requests, is_durable=is_durable)
        return pyfuse3.FileInfo(fh=self._opened(file), direct_io=True, nonseekable=inode.path.view.kind is Kind.INPUT)

    @guarded(is_open=True)
    async def read(self, fh: FileHandleT, off: int, size: int) -> Buffer:
        """Return bytes of an open file, or its writer's receipts."""
        data = await self.open_files[fh].read(off, size)
        self.metrics.read_bytes += memoryview(data).nbytes
        return data

    @guarded(is_write=True, is_open=True)
    async def write(self, fh: FileHandleT, off: int, buf: bytes) -> int:  # noqa: ARG002 -- positions mean nothing
        """Take all of the bytes, or refuse all."""
        file = self.open_files[fh]
        await file.write(buf)
        self.metrics.written_bytes += len(buf)
        await self._written(file.inode)
        return len(buf)

    @guarded(is_write=True, is_open=True)
    async def flush(self, fh: FileHandleT) -> None:
        """One of the descriptors that stem from an `open` is closed."""
        file = self.open_files[fh]
        if await file.flush():
            await self._written(file.inode)

    @guarded(is_write=True, is_open=True)
    async def fsync(self, fh: FileHandleT, datasync: bool) -> None:  # noqa: ARG002 -- the kernel's arguments
        """Return when what was written is on disk."""
        file = self.open_files[fh]
        await file.sync()
        await self._written(file.inode)

    @guarded()
    async def release(self, fh: FileHandleT) -> None:
        """All descriptors that stem from an `open` are closed."""
        self.open_files.pop(fh).close()

    async def _written(self, inode: Inode) -> None:
        """Make the kernel ask for the sizes of files that grew, so that the writer finds its records."""
        if inode.log is not None:
            await self._growth.appended(inode.log)
        if inode.path.view.kind is not Kind.INPUT:
            self.watcher.wake()

    @guarded(is_write=True)
    async def setattr(
        self,
        inode: InodeT,
        attr: EntryAttributes,
        fields: SetattrFields,
        fh: FileHandleT | None,  # noqa: ARG002
        ctx: RequestContext,  # noqa: ARG002
    ) -> EntryAttributes:
        """Accept only the truncation of a writable file, and ignore it."""
        found = self.inodes[inode]
        others = (fields.update_mode, fields.update_uid, fields.update_gid, fields.update_atime, fields.update_mtime)
        if any(others) or not fields.update_size:
            raise NotPermittedError(f"{found.path}: owner, mode and times are those of the log")
        if not found.attributes.is_writable or attr.st_size:
            raise NotPermittedError(f"{found.path}: its size is that of the log")
        return self._entries.of(found)

    @guarded()
    async def statfs(self, ctx: RequestContext) -> StatvfsData:  # noqa: ARG002
        """The space of the file system that the first log directory is on."""
        return space_of(await in_thread(partial(os.statvfs, self._place)))
