"""Requests that take long, as a few kilobytes of a log may hold gigabytes: the log says of each how far it is."""

from __future__ import annotations

import logging
import os
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from kafkafs.mount.dispatch import Waiting
    from kafkafs.mount.handlers import TreeOperations

log: Final = logging.getLogger("kafkafs.mount")

LOOK_S: Final = 0.5
TOLD_S: Final = 4.0
"""How long a request takes before the first line in the log, and between two lines."""
LINES_MAX: Final = 8
"""How many requests have a line of their own in a look: a flood of them fills no log."""
_OF_OPEN_FILES: Final = frozenset({"read", "write", "flush", "fsync"})
_OF_NAMES: Final = frozenset({"lookup", "mkdir", "rmdir"})


class LongRequests:
    """Logs what takes long, now and then until it is answered."""

    def __init__(self, operations: TreeOperations) -> None:
        self._operations = operations
        self._told_ns: dict[int, int] = {}  # when there was a line about a request, by its number

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Log the requests that have had no line for a while."""
        waiting, now_ns = self._operations.requests.waiting, perf_counter_ns()
        self._told_ns = {number: told_ns for number, told_ns in self._told_ns.items() if number in waiting}
        due = [
            number
            for number, request in waiting.items()
            if now_ns - self._told_ns.get(number, request.begun_ns) >= TOLD_S * 1e9
        ]
        for number in due[:LINES_MAX]:
            log.info("%s", self._line(waiting[number], now_ns))
        if len(due) > LINES_MAX:
            log.info("%d more requests take long", len(due) - LINES_MAX)
        self._told_ns.update(dict.fromkeys(due, now_ns))

    def _line(self, request: Waiting, now_ns: int) -> str:
        operation, (subject, *rest), begun_ns = request
        reached: int | None = None
        try:
            if operation in _OF_OPEN_FILES:
                file = self._operations.open_files[subject]
                path, reached = str(file.inode.path), file.reached()
            elif operation == "readdir":
                path = str(self._operations.listings[subject].inode.path)
            else:
                path = str(self._operations.inodes[subject].path)
        except (KeyError, OSError):
            path = "a file that is closed"
        if operation in _OF_NAMES:
            path = f"{path.rstrip('/')}/{os.fsdecode(rest[0])}"
        place = "" if reached is None else f", at offset {reached}"
        return f"{operation} of {path} has taken {(now_ns - begun_ns) / 1e9:.0f} s so far{place}"
