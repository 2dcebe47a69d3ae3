"""Directories as they are listed: open ones, what a name tells before the tree is asked, and walks through many.

A walk through many partitions, as by `du`, `find` and `grep -r`, asks for all that is listed in every directory, and
what the kernel then knows stays in memory here. So a listing in a walk tells the kernel at once what takes little to
find, and nothing is kept of that. A name whose size takes reading a log is looked up when it is asked for: its size is
never said to be unknown only because of the walk. Once a walk has asked for such a name, as `du` does and `find` does
not, its listings tell the sizes of short logs too.
"""

from __future__ import annotations

import re
import stat
from contextlib import nullcontext
from functools import partial
from itertools import chain
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.descriptor_memory import KEPT
from kafkafs.locator.descent import child
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.paths import PartitionDirectoryPath, PartitionPath, TopicPath
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View
from kafkafs.tree.node import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from kafkafs.locator.paths import LogPath, TreePath
    from kafkafs.mount.dispatch import Pace, Wait
    from kafkafs.mount.inodes import Inode
    from kafkafs.tree.node import Directory

_TYPES: Final = {Kind.DIRECTORY: stat.S_IFDIR, Kind.LINK: stat.S_IFLNK}
_RECORD: Final = re.compile(r"[0-9]+(\.[a-z]+)?")

WALK_LOGS: Final = 64
"""In how many logs directories are opened, one after another, before that is a walk."""
PAUSE_S: Final = 2.0
"""How long no directory is opened once a walk is over."""

CHUNK_NAMES: Final = 2048
CHUNK_S: Final = 0.25
_WINDOW_NAMES: Final = 2 * CHUNK_NAMES
_NAME_BYTES: Final = 512  # what a name takes with its attributes


def path_of_name(parent: TreePath, name: str) -> TreePath | None:
    """Return the path of a listed name, as far as the name tells."""
    try:
        return child(parent, name)
    except BadNameError:
        return None


def type_of_path(path: TreePath | None) -> int:
    """Return the type of the node at a path; 0 for no path."""
    return 0 if path is None else _TYPES.get(path.view.kind, stat.S_IFREG)


def can_be_quick(parent: TreePath, name: str) -> bool:
    """True if a node of this name is as a rule found in less than a millisecond, once one like it was.

    Records and `append` files are. Sizes of streams, ranges and names that count from the end may take long.
    """
    if isinstance(parent, PartitionDirectoryPath):
        return parent.view is View.OFFSET and _RECORD.fullmatch(name) is not None
    view = PARTITION_VIEWS.get(name) if isinstance(parent, PartitionPath) else None
    return view is not None and view.kind is Kind.INPUT


def is_directory_of_log(parent: TreePath, name: str) -> bool:
    """True if a node of this name is a partition, or a directory in one, if there is one."""
    if isinstance(parent, TopicPath):
        return name.isdigit()
    view = PARTITION_VIEWS.get(name) if isinstance(parent, PartitionPath) else None
    return view is not None and view.kind is Kind.DIRECTORY


class Walk(NamedTuple):
    """A walk that goes on. It `is_sized` if it asks for sizes."""

    is_sized: bool


class Walks:
    """Notes the directories that are opened. Only the event loop's thread may use it."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._logs: set[LogPath] = set()
        self._asks_for_sizes = False
        self._opened_s = now_s()

    def opened(self, log: LogPath) -> Walk | None:
        """Return the walk in which a directory of the log is opened, if it is one."""
        now_s = self._now_s()
        if now_s - self._opened_s > PAUSE_S:
            self._logs.clear()
            self._asks_for_sizes = False
        self._opened_s = now_s
        if len(self._logs) <= WALK_LOGS:
            self._logs.add(log)
        return Walk(is_sized=self._asks_for_sizes) if len(self._logs) > WALK_LOGS else None

    def looked_up(self) -> None:
        """Note that a name in a log is looked up which is no directory: a walk that goes on asks for sizes."""
        self._asks_for_sizes = len(self._logs) > WALK_LOGS


class Listing:
    """An open directory: its entries by their positions as they were when it was opened, `.` and `..` first.

    `pace` is that of recent listings, `footing` that of its log before it was opened, and `wait` makes the block in
    which a request waits for a thread.
    """

    def __init__(
        self,
        inode: Inode,
        directory: Directory,
        pace: Pace,
        walk: Walk | None = None,
        footing: Hashable = None,
        wait: Wait = nullcontext,
    ) -> None:
        self.inode = inode
        self.walk = walk
        self.footing = footing
        self._directory = directory
        path = inode.path
        self._is_of_records = isinstance(path, PartitionDirectoryPath) and path.view in (View.OFFSET, View.DAMAGE)
        self._pace = pace
        self._wait = wait
        self._entries: Iterator[Entry] = iter(())
        self._start = 0
        self._window: list[Entry] = []
        self._is_begun = False
        self._is_ended = False
        self._dropping = Lock()  # held while it is decided who has the entries
        self._in_use = 0

    async def entries(self, position: int) -> list[Entry]:
        """Return some entries from a position on, none at the end. Recent entries are cached while there is room."""
        with self._dropping:
            self._in_use += 1
        try:
            return await self._from(position)
        finally:
            with self._dropping:
                self._in_use -= 1
                size_bytes = _NAME_BYTES * len(self._window)
            KEPT.keep(self, size_bytes)

    def drop_kept(self) -> None:
        """Drop the entries, unless they are in use: the directory is listed again where its listing goes on."""
        with self._dropping:
            if not self._in_use:
                self._entries, self._window, self._is_begun = iter(()), [], False

    def close(self) -> None:
        """Release the entries."""
        self.drop_kept()
        KEPT.keep(self, 0)

    async def _from(self, position: int) -> list[Entry]:
        is_first = not self._is_begun or position < self._start
        while is_first or (position >= self._start + len(self._window) and not self._is_ended):
            work = partial(self._next, is_first=is_first)
            # What decodes records may need much memory, for which the event loop cannot wait. A walk tries, as it has
            # much to list: its pace begins again in a thread.
            is_tried = not self._is_of_records or (is_first and self.walk is not None)
            run = self._pace.run if is_tried else self.inode.quick.run_in_thread
            chunk, self._is_ended = await run(work, wait=self._wait)
            is_first = False
            dropped = max(len(self._window) + len(chunk) - _WINDOW_NAMES, 0)
            self._window = self._window[dropped:] + chunk
            self._start += dropped
        return self._window[position - self._start :]

    def _next(self, *, is_first: bool) -> tuple[list[Entry], bool]:
        """Return some entries, and whether they are the last: as many as are found in a moment, but for the first."""
        if is_first:
            walk, directory = self.walk, self._directory
            found = directory.entries() if walk is None else directory.walked(is_sized=walk.is_sized)
            self._entries = chain((Entry("."), Entry("..")), found)
            self._start, self._window, self._is_begun = 0, [], True
        chunk: list[Entry] = []
        ends_s = monotonic() + CHUNK_S
        for entry in self._entries:
            chunk.append(entry)
            if len(chunk) == CHUNK_NAMES or monotonic() > ends_s:
                return chunk, False
        return chunk, True
