"""Flushing a log: how far it is on disk, and bringing the rest there.

A flush promises that everything before the offset that it was asked for survives a loss of power, and only then moves
the recovery point. Any thread may flush, one at a time; appending and rolling go on meanwhile.
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

    BUFFERED = "buffered"  # it survives the death of the process; a loss of power takes what was not flushed
    SYNCED = "synced"  # it survives a loss of power


class Flushing:
    """The segments of a log that may not be on disk yet: the active one, and those that were rolled since.

    `recovery_point` is the offset before which everything is on disk, and `flushed_ms` when it last reached what was
    then the log's end. Once closed, there is nothing to flush.
    """

    def __init__(self, active: WritableSegment, recovery_point: int, now_ms: int) -> None:
        self.active = active
        self.recovery_point = recovery_point
        self.flushed_ms = now_ms
        self._rolled: list[WritableSegment] = []
        self._is_closed = False
        self._files_lock = Lock()  # held while files are flushed or closed
        self._segments_lock = Lock()  # taken after the other, and only while it is told which segments there are

    def roll(self, active: WritableSegment) -> None:
        """Take over a new active segment; the one before it, which is finished, is closed once it is on disk."""
        with self._segments_lock:
            self._rolled.append(self.active)
            self.active = active

    def replace(self, active: WritableSegment) -> None:
        """Take over another active segment after a truncation; nothing rolled is left."""
        with self._files_lock, self._segments_lock:
            assert not self._rolled
            self.active = active

    def lower(self, end_offset: int) -> None:
        """Promise no more than what lies before the end offset, as the rest is about to be dropped."""
        with self._files_lock:
            self.recovery_point = min(self.recovery_point, end_offset)

    def flush_rolled(self, now_ms: int) -> None:
        """Bring every finished segment to disk."""
        with self._files_lock:
            if not self._is_closed:
                self._flush_rolled(self._known()[0], now_ms)

    def flush(self, end_offset: Callable[[], int], now_ms: int) -> None:
        """Bring everything to disk that lies before the log's end, which is asked for when the flush has its turn."""
        with self._files_lock:
            if self._is_closed:
                return
            reached = end_offset()  # after a truncation that this waited for, and before it is known what to flush
            rolled, active = self._known()
            self._flush_rolled(rolled, now_ms)
            active.flush()
            self.recovery_point = max(self.recovery_point, reached)
            self.flushed_ms = now_ms

    def rest(self) -> bool:
        """Have the active segment hold no descriptors; False if there is something that is not on disk.

        Nothing is appended meanwhile.
        """
        with self._files_lock:
            if self._is_closed or self._known()[0]:
                return False
            self.active.rest()
            return True

    def close(self) -> None:
        """Let go of every file, flushed or not; if that fails for some, the others are closed all the same."""
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
