"""An open directory: its entries as they were when it was opened, a chunk at a time."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from kafkafs.tree.node import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.mount.dispatch import Pace
    from kafkafs.mount.inodes import Inode
    from kafkafs.mount.walks import Walk
    from kafkafs.tree.node import Directory

CHUNK_NAMES: Final = 2048
_WINDOW_NAMES: Final = 2 * CHUNK_NAMES


class Listing:
    """The names in a directory by their positions, `.` and `..` first. `pace` is that of recent listings."""

    def __init__(self, inode: Inode, directory: Directory, pace: Pace, walk: Walk | None = None) -> None:
        self.inode = inode
        self.walk = walk
        self._directory = directory
        self._pace = pace
        self._entries: Iterator[Entry] = iter(())
        self._start = 0
        self._window: list[Entry] = []
        self._is_begun = False
        self._is_ended = False

    async def entries(self, position: int) -> list[Entry]:
        """Return some entries from a position on, none at the end. Recent entries are cached."""
        is_first = not self._is_begun or position < self._start
        while is_first or (position >= self._start + len(self._window) and not self._is_ended):
            chunk = await self._pace.run(partial(self._next, is_first=is_first))
            is_first = False
            self._is_ended = len(chunk) < CHUNK_NAMES
            dropped = max(len(self._window) + len(chunk) - _WINDOW_NAMES, 0)
            self._window = self._window[dropped:] + chunk
            self._start += dropped
        return self._window[position - self._start :]

    def _next(self, *, is_first: bool) -> list[Entry]:
        if is_first:
            walk, directory = self.walk, self._directory
            found = directory.entries() if walk is None else directory.walked(is_sized=walk.is_sized)
            self._entries = chain((Entry("."), Entry("..")), found)
            self._start, self._window, self._is_begun = 0, [], True
        return list(islice(self._entries, CHUNK_NAMES))
