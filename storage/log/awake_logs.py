"""A bound on the logs that hold descriptors: above it, logs that were not changed lately rest.

A log at rest is on disk, holds no descriptors, and can be read; the next change wakes it.
"""

from __future__ import annotations

import logging
import resource
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTORS_A_LOG: Final = 6
"""The descriptors that a log takes while it is awake: the segment's log, two indexes twice, as they are mapped, and the
index of aborted transactions."""
AWAKE_LOGS_MAX: Final = 10_000
"""The kernel allows a process some 65,000 maps, and a log with open files has two."""
_AWAKE_SHARE: Final = 2
"""The share of descriptors for logs that are written; the rest is for readers, and for opening and recovering."""

logger = logging.getLogger(__name__)


def awake_logs_max() -> int:
    """Return how many logs may hold descriptors at once under this process's limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return AWAKE_LOGS_MAX
    return max(min(soft // _AWAKE_SHARE // DESCRIPTORS_A_LOG, AWAKE_LOGS_MAX), 1)


class RestingLog(Protocol):
    """A log that can rest. Each change sets `was_changed`, and `AwakeLogs` resets it."""

    was_changed: bool

    def rest(self) -> bool:
        """Hold no descriptors; False if the log cannot rest now."""


class AwakeLogs:
    """The logs that are awake: at most `most`, not counting logs that are being changed. Any thread may call this.

    The CLOCK algorithm chooses which logs rest: the longest awake of those that were not changed since its hand last
    passed them. So a change costs nothing here unless it wakes a log.
    """

    def __init__(self, most: int) -> None:
        assert most > 0
        self._most = most
        self._lock = Lock()  # held while the logs are listed, never while one goes to rest
        self._logs: dict[RestingLog, None] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, log: RestingLog) -> None:
        """Add a log that is awake now, and have others rest if there are too many."""
        with self._lock:
            self._logs[log] = None
        for each in self._in_turn():
            with self._lock:
                if len(self._logs) <= self._most:
                    return
                is_awake = each in self._logs
            if is_awake and each is not log:
                self._have_rest(each)

    def discard(self, log: RestingLog) -> None:
        """Forget a log that is closed."""
        with self._lock:
            self._logs.pop(log, None)

    def _in_turn(self) -> Iterator[RestingLog]:
        """Iterate over the logs in the order to have them rest, twice: the first time without those changed lately."""
        with self._lock:
            once = list(self._logs) if len(self._logs) > self._most else []
        for log in once:
            if not log.was_changed:
                yield log
            else:
                log.was_changed = False
                with self._lock:
                    if log in self._logs:
                        self._logs[log] = self._logs.pop(log)
        yield from once

    def _have_rest(self, log: RestingLog) -> None:
        try:
            rests = log.rest()
        except (StorageError, OSError) as error:
            logger.error("a log that was to rest failed: %s", error)  # noqa: TRY400 -- no user sees a traceback
            rests = True  # it is poisoned, and accepts no more changes
        if rests:
            self.discard(log)
