"""Flushing a log: how far it is on disk, and bringing the rest there.

A flush brings everything before the log's end to disk, where it survives a loss of power, and only then moves the
recovery point. Any thread may flush, one at a time; appending and rolling go on meanwhile.
"""

from __future__ import annotations

from contextlib import ExitStack
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.segment.writable_segment import WritableSegment


class Durability(Enum):
    """The promise of an append once it has returned."""

    BUFFERED = "buffered"  # it survives the death of the process, and once flushed a loss of power
    SYNCED = "synced"  # it survives a loss of power


class Flushing:
    """The segments of a log that may not be on disk yet: the active one, and those rolled since the last flush.

    Everything before `recovery_point` is on disk. `flushed_ms` is the time of the last flush. Once closed, there is
    nothing to flush.
    """

    def __init__(self, active: WritableSegment, recovery_point: int, now_ms: int) -> None:
        self.active = active
        self.recovery_point = recovery_point
        self.flushed_ms = now_ms
        self._rolled: list[WritableSegment] = []
        self._is_closed = False
        self._files_lock = Lock()  # held while files are flushed or closed
        self._segments_lock = Lock()  # taken after the other, and only to read or change which segments there are

    def roll(self, active: WritableSegment) -> None:
        """Go on with a new active segment. The finished one before it is closed once it is on disk."""
        with self._segments_lock:
            self._rolled.append(self.active)
            self.active = active

    def replace(self, active: WritableSegment) -> None:
        """Go on with another active segment after a truncation, which left no rolled segment."""
        with self._files_lock, self._segments_lock:
            assert not self._rolled
            self.active = active

    def lower(self, end_offset: int) -> None:
        """Lower the recovery point to the end offset, as everything after it is about to be dropped."""
        with self._files_lock:
            self.recovery_point = min(self.recovery_point, end_offset)

    def flush_rolled(self, now_ms: int) -> None:
        """Bring every finished segment to disk."""
        with self._files_lock:
            if not self._is_closed:
                self._flush_rolled(self._known()[0], now_ms)

    def flush(self, end_offset: Callable[[], int], now_ms: int) -> None:
        """Bring everything before the log's end to disk; `end_offset` is called once the flush has its turn."""
        with self._files_lock:
            if self._is_closed:
                return
            reached = end_offset()  # after any truncation that this waited for, and before the segments are listed
            rolled, active = self._known()
            self._flush_rolled(rolled, now_ms)
            active.flush()
            self.recovery_point = max(self.recovery_point, reached)
            self.flushed_ms = now_ms

    def rest(self) -> bool:
        """Close the active segment's descriptors; False if a rolled segment is not on disk or all is closed.

        The caller excludes appends meanwhile.
        """
        with self._files_lock:
            if self._is_closed or self._known()[0]:
                return False
            self.active.rest()
            return True

    def close(self) -> None:
        """Close every file, flushed or not. If closing one fails, the others are closed all the same."""
        with self._files_lock, ExitStack() as stack:
            self._is_closed = True
            rolled, active = self._known()
            for segment in (active, *rolled):
                stack.callback(segment.close)

    def _known(self) -> tuple[list[WritableSegment], WritableSegment]:
        with self._segments_lock:
            return list(self._rolled), self.active

    def _flush_rolled(self, rolled: list[WritableSegment], now_ms: int) -> None:
        for segment in rolled:
            segment.flush()
            with self._segments_lock:
                self._rolled.remove(segment)
                following = self._rolled[0] if self._rolled else self.active
            self.recovery_point = max(self.recovery_point, following.base_offset)
            self.flushed_ms = now_ms
            segment.close()
