"""The last pages of files that grow, which the kernel shares among all descriptors of a file.

The kernel fills a page with zeros after the end of its file. It takes in a larger size first and drops the page then;
a process that reads in between gets the zeros as data. So a larger size is told only while no such page is cached: the
kernel is made to drop it before. What is read from then on reaches as far as the size that is about to be told.

A process that has the file open may map it as large as it was told, and the kernel distrusts sizes that were on their
way to it while pages were dropped. So such a process is told the larger size the next time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyfuse3
import trio

from kafkafs.mount.dispatch import Turn

if TYPE_CHECKING:
    from kafkafs.tree.node import Attributes

PAUSE_S: Final = 0.002
"""How long after a size was told no page is dropped: until then the size may be on its way."""
QUIET_S: Final = 0.25
"""How long a moment without a read is waited for."""


class Tail:
    """The last page of a file with this key. Only the event loop's thread may use it."""

    __slots__ = (
        "_is_cached",
        "_is_dropping",
        "_is_raising",
        "_key",
        "_limiter",
        "_quiet",
        "_reads",
        "_told_bytes",
        "_told_s",
        "_turn",
    )

    def __init__(self, key: int) -> None:
        self._key = key
        self._told_bytes: int | None = None  # if a size was told
        self._told_s = 0.0
        self._is_cached = False
        self._is_dropping = False
        self._reads = 0  # whose replies are not sent
        self._quiet: trio.Event | None = None  # set once no read is under way
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
    def is_free(self) -> bool:
        """True if any size can be told at once."""
        return not (self._is_cached or self._is_dropping or self._reads)

    def limited(self, attributes: Attributes) -> Attributes:
        """Return the attributes with the size that is told now, which is no smaller than the last one."""
        self._may_tell(attributes.size_bytes)
        if attributes.size_bytes in {None, self._told_bytes}:
            return attributes
        return attributes._replace(size_bytes=self._told_bytes)

    async def raise_to(self, size_bytes: int | None) -> None:
        """Return when this size can be told, and is told from now on."""
        if not self._may_tell(size_bytes):
            async with self._turn:
                if not self._may_tell(size_bytes):
                    await self._drop_pages()
                    self._tell(size_bytes or 0)

    def raise_soon(self, size_bytes: int | None) -> None:
        """Begin that, and do not wait."""
        if not self._may_tell(size_bytes) and not self._is_raising:
            self._is_raising = True
            trio.lowlevel.spawn_system_task(self._raise_beside, size_bytes)

    def _may_tell(self, size_bytes: int | None) -> bool:
        """Return True if this size can be told, and is then."""
        if size_bytes is not None and size_bytes > (self._told_bytes or 0):
            if not self.is_free:
                return False
            self._tell(size_bytes)
        return True

    def _tell(self, size_bytes: int) -> None:
        self._told_bytes, self._told_s = max(self._told_bytes or 0, size_bytes), monotonic()

    async def _drop_pages(self) -> None:
        await trio.sleep(max(self._told_s + PAUSE_S - monotonic(), 0))
        # The kernel drops no page before it is read, and a process that is killed in between would not end: its thread
        # waits for a reply that it is to send.
        with trio.move_on_after(QUIET_S):
            while self._reads:
                self._quiet = trio.Event()
                await self._quiet.wait()
        self._is_cached, self._is_dropping = False, True
        # It waits for reads, whose threads it must not take.
        self._limiter = self._limiter or trio.CapacityLimiter(1)
        try:
            await trio.to_thread.run_sync(partial(_drop_pages, self._key), limiter=self._limiter)
        finally:
            self._is_dropping = False

    async def _raise_beside(self, size_bytes: int | None) -> None:
        try:
            await self.raise_to(size_bytes)
        finally:
            self._is_raising = False


def _drop_pages(key: int) -> None:
    """Make the kernel drop all pages of a file, as it does when the size changes. It may have forgotten the file."""
    with suppress(OSError):
        pyfuse3.invalidate_inode(key)
