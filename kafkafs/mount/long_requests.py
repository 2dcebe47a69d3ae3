"""Requests that take long, as a few kilobytes of a log may hold gigabytes: the log says of each how far it is."""

from __future__ import annotations

import logging
import os
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import trio

from kafkafs.mount.log import FailedLooks

if TYPE_CHECKING:
    from kafkafs.mount.dispatch import Waiting
    from kafkafs.mount.handlers import TreeOperations
    from kafkafs.mount.inodes import Inode

log: Final = logging.getLogger("kafkafs.mount")

LOOK_S: Final = 0.5
TOLD_S: Final = 4.0
"""How long a request takes before the first line in the log, and between two lines."""
LINES_MAX: Final = 8
"""How many lines there are in that time, with one for all requests of a file: a flood of them fills no log."""
_LOOKED_AT_MAX: Final = 1000
_TOLD_NS: Final = round(TOLD_S * 1e9)
_OF_OPEN_FILES: Final = frozenset({"read", "write", "flush", "fsync"})
_OF_NAMES: Final = frozenset({"lookup", "mkdir", "rmdir"})


class LongRequests:
    """Logs what takes long, now and then until it is answered."""

    def __init__(self, operations: TreeOperations) -> None:
        self._operations = operations
        self._told_ns: dict[str, int] = {}  # when there was a line about requests, by what they are of
        self._begun_ns = 0  # when the lines were counted from
        self._lines = 0

    async def run(self) -> None:
        """Look until cancelled. A look that fails ends no mount."""
        failed = FailedLooks("long requests")
        while True:
            await trio.sleep(LOOK_S)
            with failed.logged():
                self.look(perf_counter_ns())

    def look(self, now_ns: int) -> None:
        """Log the requests that have had no line for a while."""
        longest: dict[str, Waiting] = {}
        for request in islice(self._operations.requests.waiting.values(), _LOOKED_AT_MAX):  # the oldest come first
            if now_ns - request.begun_ns >= _TOLD_NS:
                longest.setdefault(self._subject(request), request)
        self._told_ns = {subject: told_ns for subject, told_ns in self._told_ns.items() if subject in longest}
        due = [subject for subject in longest if now_ns - self._told_ns.get(subject, 0) >= _TOLD_NS]
        if now_ns - self._begun_ns >= _TOLD_NS:
            self._begun_ns, self._lines = now_ns, 0
        for subject in due[: max(LINES_MAX - self._lines, 0)]:
            place = self._place(longest[subject])
            log.info("%s has taken %.0f s so far%s", subject, (now_ns - longest[subject].begun_ns) / 1e9, place)
        if self._lines < LINES_MAX < self._lines + len(due):
            log.info("requests of %d other files take long, too", self._lines + len(due) - LINES_MAX)
        self._lines += len(due)
        self._told_ns.update(dict.fromkeys(due, now_ns))

    def _subject(self, request: Waiting) -> str:
        """Return what a request is and of what, the same for all threads that ask for it."""
        operation, (first, *rest), _ = request
        if not isinstance(first, int):
            return operation
        try:
            path = str(self._inode(operation, first).path)
        except (KeyError, OSError):
            path = "a file that is closed"
        if operation in _OF_NAMES:
            path = f"{path.rstrip('/')}/{os.fsdecode(rest[0])}"
        return f"{operation} of {path}"

    def _inode(self, operation: str, number: int) -> Inode:
        if operation in _OF_OPEN_FILES:
            return self._operations.open_files[number].inode
        return self._operations.listings[number].inode if operation == "readdir" else self._operations.inodes[number]

    def _place(self, request: Waiting) -> str:
        file = self._operations.open_files.get(request.arguments[0]) if request.operation == "read" else None
        reached = None if file is None else file.reached()
        return "" if reached is None else f", at offset {reached}"
