"""An open directory: its entries as they were when it was opened, a chunk at a time."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from kafkafs.mount.pace import in_thread
from kafkafs.tree.node import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.mount.inodes import Inode
    from kafkafs.tree.node import Directory

CHUNK_NAMES: Final = 2048
_WINDOW_NAMES: Final = 2 * CHUNK_NAMES


class Listing:
    """The names in a directory by their positions, `.` and `..` first."""

    def __init__(self, inode: Inode, directory: Directory) -> None:
        self.inode = inode
        self._directory = directory
        self._entries: Iterator[Entry] = iter(())
        self._start = 0
        self._window: list[Entry] = []
        self._is_begun = False

    async def entries(self, position: int) -> list[Entry]:
        """Return some entries from a position on, none at the end. Recent entries are cached."""
        if not self._is_begun or position < self._start:
            await in_thread(self._begin)
        while position >= self._start + len(self._window):
            chunk = await in_thread(lambda: list(islice(self._entries, CHUNK_NAMES)))
            if not chunk:
                return []
            dropped = max(len(self._window) + len(chunk) - _WINDOW_NAMES, 0)
            self._window = self._window[dropped:] + chunk
            self._start += dropped
        return self._window[position - self._start :]

    def _begin(self) -> None:
        self._entries = chain((Entry("."), Entry("..")), self._directory.entries())
        self._start, self._window, self._is_begun = 0, [], True
