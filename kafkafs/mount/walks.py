"""Walks through many partitions, as by `du`, `find` and `grep -r`.

A walk asks for all that is listed in every directory, and what the kernel then knows stays in memory here. So a listing
in a walk tells the kernel at once what takes little to find, and nothing is kept of that. A name whose size takes
reading a log is looked up when it is asked for: its size is never said to be unknown only because of the walk. Once a
walk has asked for such a name, as `du` does and `find` does not, its listings tell the sizes of short logs too.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.paths import LogPath

WALK_LOGS: Final = 64
"""In how many logs directories are opened, one after another, before that is a walk."""
PAUSE_S: Final = 2.0
"""How long no directory is opened once a walk is over."""


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
