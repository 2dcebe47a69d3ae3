"""Walks through many partitions, as by `du`, `find` and `grep -r`.

A walk asks for all that is listed in every directory, and what the kernel then knows stays in memory here. So a listing
in a walk tells the kernel at once what takes little to find, and nothing is kept of that. A name whose size takes
reading a log is looked up when it is asked for: its size is never said to be unknown only because of the walk.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.paths import LogPath

WALK_LOGS: Final = 64
"""In how many logs directories are opened, one after another, before that is a walk."""
PAUSE_S: Final = 2.0
"""How long no directory is opened once a walk is over."""


class Walks:
    """Notes the directories that are opened. Only the event loop's thread may use it."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._logs: set[LogPath] = set()
        self._opened_s = now_s()

    def opened(self, log: LogPath) -> bool:
        """Return True if a directory of the log is opened in a walk."""
        now_s = self._now_s()
        if now_s - self._opened_s > PAUSE_S:
            self._logs.clear()
        self._opened_s = now_s
        if len(self._logs) <= WALK_LOGS:
            self._logs.add(log)
        return len(self._logs) > WALK_LOGS
