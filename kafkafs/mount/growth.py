"""Sizes that the kernel keeps of files that grow: none is older than the last append.

It may cache the sizes of a log at rest for a moment, and the first append invalidates them. While appends go on it may
cache nothing: invalidating each time would drop sizes on their way to it, so that a process would find the file shorter
than its size, and get SIGBUS if it maps it.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyfuse3

from kafkafs.mount.caching import GROWING

if TYPE_CHECKING:
    from kafkafs.locator.paths import LogPath
    from kafkafs.mount.inodes import Inode, Inodes

REST_S: Final = 0.5
"""How long after an append a log is at rest."""


class Growth:
    """The logs that are being appended to. Only the event loop's thread may use it."""

    def __init__(self, inodes: Inodes) -> None:
        self._inodes = inodes
        self._rests_at_s: dict[LogPath, float] = {}

    def appended(self, log: LogPath) -> None:
        """Note an append, before its writer gets the reply."""
        now_s = monotonic()
        was_at_rest = self._is_at_rest(log, now_s)
        self._rests_at_s[log] = now_s + REST_S
        if was_at_rest:
            for inode in self._inodes.growing(log):
                forget_attributes(inode)

    def attributes_s(self, inode: Inode) -> float:
        """Return how long the kernel may cache a file's attributes now."""
        if inode.caching is GROWING and inode.log is not None and not self._is_at_rest(inode.log, monotonic()):
            return 0.0
        return inode.caching.attributes_s

    def _is_at_rest(self, log: LogPath, now_s: float) -> bool:
        return self._rests_at_s.get(log, 0.0) <= now_s


def forget_attributes(inode: Inode) -> None:
    """Make the kernel ask for the attributes again. It may have forgotten the file already."""
    with suppress(OSError):
        pyfuse3.invalidate_inode(inode.key, attr_only=True)
