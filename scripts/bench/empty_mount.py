"""File systems of stock pyfuse3 to compare a mount with: as little as can be answered, by way of its own event loop.

    empty_mount.py MOUNTPOINT empty        every name is a file of a few bytes, made up in place
    empty_mount.py MOUNTPOINT FILE…        plain files under their own names, read with pread
    empty_mount.py MOUNTPOINT written FILE every name is a file; what is written to it is written to FILE, at its end

Prints a line once it is mounted; SIGTERM ends it.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from pathlib import Path

import pyfuse3
import trio

TIMEOUT_S = 300
CONTENT = b'{"id":12345678,"u":"0123abcd","m":"some words as values have them"}'


class EmptyOperations(pyfuse3.Operations):
    """Every name that is a number is a file, and all files have the same bytes."""

    async def lookup(self, parent_inode, name, ctx):
        return _attributes(int(name) + 2, len(CONTENT))

    async def getattr(self, inode, ctx):
        return _attributes(inode, len(CONTENT), is_directory=inode == pyfuse3.ROOT_INODE)

    async def open(self, inode, flags, ctx):
        return pyfuse3.FileInfo(fh=inode, keep_cache=True)

    async def read(self, fh, off, size):
        return CONTENT

    async def write(self, fh, off, buf):
        return len(buf)

    async def flush(self, fh):
        pass

    async def release(self, fh):
        pass


class PlainFiles(EmptyOperations):
    """Files of the disk: a descriptor of each is held, and read where the kernel asks."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self.inodes = {Path(path).name.encode(): 2 + number for number, path in enumerate(paths)}
        self.descriptors = {2 + number: os.open(path, os.O_RDONLY) for number, path in enumerate(paths)}

    async def lookup(self, parent_inode, name, ctx):
        if name not in self.inodes:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return await self.getattr(self.inodes[name], ctx)

    async def getattr(self, inode, ctx):
        if inode == pyfuse3.ROOT_INODE:
            return _attributes(inode, 0, is_directory=True)
        return _attributes(inode, os.fstat(self.descriptors[inode]).st_size)

    async def read(self, fh, off, size):
        return os.pread(self.descriptors[fh], size, off)


class WrittenFile(EmptyOperations):
    """One file for all names, which only grows."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.end = 0

    async def lookup(self, parent_inode, name, ctx):
        return _attributes(2, 0)

    async def open(self, inode, flags, ctx):
        return pyfuse3.FileInfo(fh=inode, direct_io=True, nonseekable=True)

    async def write(self, fh, off, buf):
        self.end += os.pwrite(self.descriptor, buf, self.end)
        return len(buf)


def _operations(arguments: list[str]) -> EmptyOperations:
    match arguments:
        case ["empty"]:
            return EmptyOperations()
        case ["written", path]:
            return WrittenFile(path)
        case paths:
            return PlainFiles(paths)


def _attributes(inode: int, size_bytes: int, *, is_directory: bool = False) -> pyfuse3.EntryAttributes:
    entry = pyfuse3.EntryAttributes()
    entry.st_ino = inode
    entry.st_mode = stat.S_IFDIR | 0o755 if is_directory else stat.S_IFREG | 0o644
    entry.st_size = size_bytes
    entry.st_nlink = 1
    entry.entry_timeout = entry.attr_timeout = TIMEOUT_S
    return entry


async def serve() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_on_signal)
        print("mounted", flush=True)
        await pyfuse3.main()
        nursery.cancel_scope.cancel()


async def _end_on_signal() -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            pyfuse3.terminate()


def main() -> int:
    mount_point, *arguments = sys.argv[1:]
    pyfuse3.init(_operations(arguments), mount_point, {*pyfuse3.default_options, "fsname=empty"})
    try:
        trio.run(serve)
    finally:
        pyfuse3.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
