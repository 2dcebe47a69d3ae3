"""Sizes that the kernel keeps of files that grow: none is older than the last append.

What it was told of a log at rest it may keep for a moment, and the first append takes that back. While appends go on it
may keep nothing: to take back each time would make it drop sizes that are on their way to it, so that whoever is told
one finds the file shorter than that, and gets SIGBUS where he maps it.
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
    """Which logs are appended to just now; for the event loop's thread alone."""

    def __init__(self, inodes: Inodes) -> None:
        self._inodes = inodes
        self._rests_at_s: dict[LogPath, float] = {}

    def appended(self, log: LogPath) -> None:
        """Take notice of an append before who made it hears of it."""
        now_s = monotonic()
        was_at_rest = self._is_at_rest(log, now_s)
        self._rests_at_s[log] = now_s + REST_S
        if was_at_rest:
            for inode in self._inodes.growing(log):
                forget_attributes(inode)

    def attributes_s(self, inode: Inode) -> float:
        """How long the kernel may keep what it is told of a file now."""
        if inode.caching is GROWING and inode.log is not None and not self._is_at_rest(inode.log, monotonic()):
            return 0.0
        return inode.caching.attributes_s

    def _is_at_rest(self, log: LogPath, now_s: float) -> bool:
        return self._rests_at_s.get(log, 0.0) <= now_s


def forget_attributes(inode: Inode) -> None:
    """Have the kernel ask for the attributes when it next needs them; it may have forgotten all about the file."""
    with suppress(OSError):
        pyfuse3.invalidate_inode(inode.key, attr_only=True)
