"""Invalidation: the kernel is made to forget what it cached before that is outdated.

Logs are checked now and then, so that the kernel drops cached files that were removed. The kernel may cache the sizes
of a log at rest for a moment, and the first append invalidates them. While appends go on it may cache none.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyfuse3
import trio

from kafkafs.locator.views import View
from kafkafs.mount.caching import GROWING, LOOK_S
from kafkafs.mount.dispatch import in_thread
from kafkafs.mount.log import FailedLooks
from kafkafs.mount.tails import Tail
from kafkafs.tree.errors import TreeError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from kafkafs.locator.paths import LogPath
    from kafkafs.mount.inodes import Inode, Inodes
    from kafkafs.mount.tails import ByteAt
    from kafkafs.tree.node import Attributes, Reading

log: Final = logging.getLogger("kafkafs.mount")

_UNWATCHED: Final = object()
_REAL: Final = (View.SEGMENT, View.SEGMENT_TEXT)
REST_S: Final = 0.5
"""How long after an append a log is at rest."""
WATCHED_MAX: Final = 64
"""How many logs the kernel keeps files of for long, open ones not counted: each is looked at twice a second."""


class Growth:
    """The logs that are being appended to. Only the event loop's thread may use it.

    `look` returns the attributes of a file with these readings now. Any thread may call it.
    """

    def __init__(self, inodes: Inodes, look: Callable[[Inode, Sequence[Reading]], Attributes]) -> None:
        self._inodes = inodes
        self._look = look
        self._rests_at_s: dict[LogPath, float] = {}

    async def appended(self, log: LogPath) -> None:
        """Note an append, before its writer gets the reply: what it asks for then has the records."""
        now_s = monotonic()
        was_at_rest = self._is_at_rest(log, now_s)
        self._rests_at_s[log] = now_s + REST_S
        if was_at_rest:
            for inode in self._inodes.growing(log):
                forget_attributes(inode)
        for inode in list(self._inodes.growing(log)):
            if inode.tail is not None and inode.readings and not inode.tail.is_free:
                with suppress(StorageError, TreeError, OSError):
                    size_bytes = await inode.share.run(inode.readings[0].size_bytes)
                    await inode.tail.raise_to(size_bytes, _byte_at(inode))

    async def opened(self, inode: Inode, reading: Reading, size_bytes: int | None) -> None:
        """Note that a file of this size is opened: from now on the kernel may have pages of it."""
        if inode.tail is None and inode.caching is GROWING:
            inode.tail = Tail(inode.key, inode.attributes.size_bytes, is_known=not inode.is_resized)
        if inode.tail is not None:
            await inode.tail.raise_to(size_bytes, _byte_at(inode, reading))

    async def told(self, inode: Inode, *, is_found_by_name: bool = False) -> None:
        """Return when the size of a file can be told, or one that was told before if a process has the file open."""
        tail = inode.tail
        if tail is None:
            return
        await self._cut(inode, tail)
        size_bytes = inode.attributes.size_bytes
        if inode.readings and not is_found_by_name and not tail.is_free:
            tail.raise_soon(size_bytes, _byte_at(inode))
        else:
            await tail.raise_to(size_bytes, _byte_at(inode))
        await tail.settled()

    async def _cut(self, inode: Inode, tail: Tail) -> None:
        """Let a file of a log's directory that was cut, as an index is at a roll, be told as small as it is.

        It is looked at twice: what was found before a file has grown is smaller than what was told since, too.
        """
        size_bytes, told_bytes = inode.attributes.size_bytes, tail.told_bytes
        if size_bytes is None or inode.path.view not in _REAL or size_bytes >= told_bytes:
            return
        attributes = await inode.share.run(partial(self._look, inode, tuple(inode.readings)))
        size_bytes = attributes.size_bytes
        if size_bytes is not None and size_bytes < told_bytes == tail.told_bytes:
            inode.attributes = attributes
            tail.cut_to(size_bytes)

    def attributes_s(self, inode: Inode) -> float:
        """Return how long the kernel may cache a file's attributes now: not at all while its size is unknown."""
        if inode.attributes.size_bytes is None:
            return 0.0
        if inode.caching is GROWING and inode.log is not None and not self._is_at_rest(inode.log, monotonic()):
            return 0.0
        return inode.caching.attributes_s

    def _is_at_rest(self, log: LogPath, now_s: float) -> bool:
        return self._rests_at_s.get(log, 0.0) <= now_s


def _byte_at(inode: Inode, reading: Reading | None = None) -> ByteAt | None:
    """Return what reads a byte at the end of an open file; every text ends with a newline."""
    if reading is None and inode.readings:
        reading = inode.readings[0]
    if reading is None:
        return None
    return partial(reading.read, size_bytes=1) if inode.path.view is View.SEGMENT else _newline_at


def _newline_at(_: int) -> bytes:
    return b"\n"


def forget_attributes(inode: Inode) -> None:
    """Make the kernel ask for the attributes again. It may have forgotten the file already."""
    with suppress(OSError):
        pyfuse3.invalidate_inode(inode.key, attr_only=True)


class Watcher:
    """Checks the logs whose files the kernel knows or a process has open, now and then and when `wake` is called.

    A walk through many logs makes the kernel know files of all of them. It is made to forget those of all but the last
    `WATCHED_MAX` logs, so that a look takes no longer afterwards.

    `footing` returns what stays the same while a log only grows, so that everything cached is still valid; None if the
    log is gone. Any thread may call it.
    """

    def __init__(self, inodes: Inodes, footing: Callable[[LogPath], Hashable | None]) -> None:
        self._inodes = inodes
        self._footing = footing
        self._known: dict[LogPath, Hashable | None] = {}
        self._begun: set[LogPath] = set()  # since the last look
        self._dropped: set[LogPath] = set()  # logs that the kernel was told to forget for newer ones
        self._wake = trio.Event()

    def begin(self, path: LogPath) -> Hashable | None:
        """Remember the log's footing from before its first file was found, and return it. Any thread may call this."""
        known = self._known.get(path, _UNWATCHED)
        if known is _UNWATCHED:
            self._begun.add(path)
            known = self._known[path] = self._look_at(path)
        return known

    def known(self, path: LogPath) -> Hashable | None:
        """Return the footing that a log had at the last look, None if the log is not watched.

        What was found on another one is not invalidated any more if it changes.
        """
        return self._known.get(path)

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    async def run(self) -> None:
        """Look until cancelled. A look that fails ends no mount: it is logged, and the next one is tried."""
        failed = FailedLooks("changes")
        while True:
            with trio.move_on_after(LOOK_S):
                await self._wake.wait()
            self._wake = trio.Event()
            with failed.logged():
                await self.look()

    async def look(self) -> None:
        """Invalidate what is outdated in the kernel, and what it need not know; keep up with open files that grow."""
        if surplus := self._inodes.surplus():
            await in_thread(partial(_drop, surplus))
        followed = self._inodes.followed()
        open_files = [inode.readings[0] for inode in followed]  # now: they may be closed while others are waited for
        logs = {*await self._watched(), *(inode.log for inode in followed if inode.log is not None)}
        begun, self._begun = self._begun, set()
        for path in list(self._known):  # which is made in one step, beside `begin` in a thread
            if path not in logs and path not in begun:
                del self._known[path]
        found = await in_thread(lambda: {path: self._look_at(path) for path in logs})
        for path, footing in found.items():
            before, self._known[path] = self._known.get(path), footing
            if before is None or before != footing:
                await in_thread(partial(_drop, self._inodes.lasting(path)))
        if open_files:
            sizes = await in_thread(partial(_keep_up, open_files))
            for inode, size_bytes in zip(followed, sizes, strict=True):
                if inode.tail is not None:
                    inode.tail.raise_soon(size_bytes, _byte_at(inode))

    async def _watched(self) -> list[LogPath]:
        """Return the logs to look at, and make the kernel forget the files of others that came before them."""
        watched = self._inodes.watched_logs()
        self._dropped.intersection_update(watched)
        surplus = {path: None for path in watched[:-WATCHED_MAX] if path not in self._dropped}
        if surplus:
            files = [inode for path in surplus for inode in self._inodes.lasting(path)]
            await in_thread(partial(_drop, files))
            self._dropped.update(surplus)  # what is open stays, and is looked at from the next time on
        return [path for path in watched if path not in surplus]

    def _look_at(self, path: LogPath) -> Hashable | None:
        try:
            return self._footing(path)
        except Exception:
            log.debug("cannot look at %s", path, exc_info=True)
            return None


def _keep_up(open_files: list[Reading]) -> list[int | None]:
    """Let open streams see new records, so that a slow reader finds them even if they are removed later.

    Return their sizes, None for an unknown one.
    """
    sizes: list[int | None] = []
    for reading in open_files:
        size_bytes = None
        try:
            size_bytes = reading.size_bytes()
        except Exception:
            log.debug("cannot check open files", exc_info=True)
        sizes.append(size_bytes)
    return sizes


def _drop(inodes: list[Inode]) -> None:
    """Make the kernel forget names and pages. It may block for a moment, so do not call it in the event loop."""
    for inode in inodes:
        with suppress(OSError):
            pyfuse3.invalidate_entry(inode.parent.key, inode.name)
        with suppress(OSError):
            pyfuse3.invalidate_inode(inode.key)
