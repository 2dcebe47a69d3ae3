"""The last pages of files that grow, and their sizes, which the kernel shares among all descriptors of a file.

The kernel fills a page with zeros after the end of its file. It takes in a larger size first and drops the page then;
a process that reads in between gets the zeros as data. So a larger size is told only while no such page is cached: the
kernel is made to drop it before. What is read from then on reaches as far as the size that is about to be told.

A process may map an open file as large as it was told, and gets SIGBUS if the kernel knows a smaller size. The kernel
passes each reply to `stat` on, but takes the size from it only if it has heard nothing newer of the file since the
request. So the kernel is given the byte that ends a larger size, with which it takes in the size itself, before a
process that has the file open is told that size. It waits for that only if no page has to be dropped first; otherwise
it is told the larger size the next time.
"""

from __future__ import annotations

import logging
from functools import partial
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Final

import pyfuse3
import trio

from kafkafs.mount.dispatch import Turn
from kafkafs.tree.errors import TreeError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from typing_extensions import Buffer

    from kafkafs.tree.node import Attributes

    ByteAt: TypeAlias = Callable[[int], Buffer]
    """Returns the byte of an open file at a position. It is called in a thread."""

log: Final = logging.getLogger("kafkafs.mount")

QUIET_S: Final = 0.25
"""How long a moment without a read is waited for."""


class Tail:
    """The last page of a file with this key. Only the event loop's thread may use it.

    `told_bytes` is the size that was told last; `is_known` says that no other one was told, so the kernel has that one.
    """

    __slots__ = (
        "_is_cached",
        "_is_dropping",
        "_is_raising",
        "_key",
        "_known_bytes",
        "_limiter",
        "_quiet",
        "_reads",
        "_storing",
        "_told_bytes",
        "_turn",
    )

    def __init__(self, key: int, told_bytes: int | None = None, *, is_known: bool = True) -> None:
        self._key = key
        self._told_bytes = told_bytes
        self._known_bytes = (told_bytes or 0) if is_known else 0  # to the kernel, for sure
        self._is_cached = False
        self._is_dropping = False
        self._reads = 0  # whose replies are not sent
        self._quiet: trio.Event | None = None  # set once no read is under way
        self._storing: trio.Event | None = None  # set once the kernel knows the size
        self._is_raising = False
        self._turn = Turn()
        self._limiter: trio.CapacityLimiter | None = None

    def read_begins(self) -> None:
        """Note that a read was asked for."""
        self._reads += 1

    def read_ends(self) -> None:
        """Note that its reply is about to be sent. The kernel may have asked for less than the last page has now."""
        self._reads -= 1
        self._is_cached = True
        if self._quiet is not None and not self._reads:
            self._quiet.set()

    @property
    def told_bytes(self) -> int:
        """Return the size that was told last, 0 if none was."""
        return self._told_bytes or 0

    def cut_to(self, size_bytes: int) -> None:
        """Tell a smaller size from now on, with which the kernel drops the pages after it."""
        self._told_bytes = size_bytes
        self._known_bytes = min(self._known_bytes, size_bytes)

    @property
    def is_free(self) -> bool:
        """True if no page has to be dropped before a larger size is told."""
        return not (self._is_cached or self._is_dropping or self._reads)

    def limited(self, attributes: Attributes, *, is_open: bool) -> Attributes:
        """Return the attributes with the size that is told now, which is no smaller than the last one."""
        if not is_open:
            self._tell_at_once(attributes.size_bytes)
        if attributes.size_bytes in {None, self._told_bytes}:
            return attributes
        return attributes._replace(size_bytes=self._told_bytes)

    async def raise_to(self, size_bytes: int | None, byte_at: ByteAt | None = None) -> None:
        """Return when this size can be told, and is told from now on.

        With `byte_at`, which an open file has, the kernel knows the size then.
        """
        if self._is_raised(size_bytes, byte_at):
            return
        async with self._turn:
            if not self._is_raised(size_bytes, byte_at):
                if not self._tell_at_once(size_bytes):
                    await self._drop_pages()
                    self._tell(size_bytes or 0)
                if byte_at is not None:
                    await self._store_end(self._told_bytes or 0, byte_at)

    def raise_soon(self, size_bytes: int | None, byte_at: ByteAt | None) -> None:
        """Begin that, and do not wait."""
        if not self._is_raised(size_bytes, byte_at) and not self._is_raising:
            self._is_raising = True
            trio.lowlevel.spawn_system_task(self._raise_beside, size_bytes, byte_at)

    async def settled(self) -> None:
        """Return when the kernel knows what was told: a smaller size would take that back."""
        while self._storing is not None:
            await self._storing.wait()

    def _is_raised(self, size_bytes: int | None, byte_at: ByteAt | None) -> bool:
        if byte_at is None:
            return self._tell_at_once(size_bytes)
        return max(size_bytes or 0, self._told_bytes or 0) <= self._known_bytes

    def _tell_at_once(self, size_bytes: int | None) -> bool:
        """Return True if this size can be told without dropping a page, and is told then."""
        if size_bytes is not None and size_bytes > (self._told_bytes or 0):
            if not self.is_free:
                return False
            self._tell(size_bytes)
        return True

    def _tell(self, size_bytes: int) -> None:
        self._told_bytes = max(self._told_bytes or 0, size_bytes)

    async def _drop_pages(self) -> None:
        # The kernel drops no page before it is read, and a process that is killed in between would not end: its thread
        # waits for a reply that it is to send.
        with trio.move_on_after(QUIET_S):
            while self._reads:
                self._quiet = trio.Event()
                await self._quiet.wait()
        self._is_cached, self._is_dropping = False, True
        try:
            await self._in_thread(partial(_drop_pages, self._key))
        finally:
            self._is_dropping = False

    async def _store_end(self, size_bytes: int, byte_at: ByteAt) -> None:
        """Give the kernel the last byte, with which it takes in the size.

        What was told to it before does not make the file shorter again: it was asked for earlier. What it asks for
        after it has the byte is answered with the size, which is told already, or waits in `settled`.
        """
        storing = self._storing = trio.Event()
        try:
            if await self._in_thread(partial(_store_end, self._key, size_bytes, byte_at)):
                self._known_bytes = size_bytes
        finally:
            self._is_cached = self._is_cached or size_bytes % PAGESIZE == 1  # the kernel has the whole last page now
            self._storing = None
            storing.set()

    async def _in_thread(self, work: Callable[[], bool]) -> bool:
        # The kernel waits for reads, whose threads this must not take.
        self._limiter = self._limiter or trio.CapacityLimiter(1)
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    async def _raise_beside(self, size_bytes: int | None, byte_at: ByteAt | None) -> None:
        # An error of a task of the system would end the mount.
        try:
            await self.raise_to(size_bytes, byte_at)
        except Exception:
            log.exception("the size of an open file cannot be told: this is a bug in kafkafs")
        finally:
            self._is_raising = False


def _drop_pages(key: int) -> bool:
    """Make the kernel drop all pages of a file, as a new size does; False if it has forgotten the file."""
    try:
        pyfuse3.invalidate_inode(key)
    except OSError:
        return False
    return True


def _store_end(key: int, size_bytes: int, byte_at: ByteAt) -> bool:
    """Give the kernel the last byte of a file of this size; False if it cannot be read, as once it is closed."""
    try:
        last = bytes(byte_at(size_bytes - 1))
        if last:
            pyfuse3.notify_store(key, size_bytes - 1, last)
    except (StorageError, TreeError, OSError):
        return False
    return bool(last)
