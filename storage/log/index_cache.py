"""The segments whose indexes are in memory: at most a few of a log, and at most some hundred of all logs."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from storage.files import LastUsed

if TYPE_CHECKING:
    from storage.segment.segment import Segment

SEGMENTS_MAX = 16
ALL_SEGMENTS_MAX: Final = 1024
"""The number of segments of all logs together, of which a process may have many thousands."""

_all_segments: Final[LastUsed[Segment]] = LastUsed(ALL_SEGMENTS_MAX, lambda segment: segment.unload())


class IndexCache:
    """The segments that were used last; the others unload. Any thread may use this.

    `holds_logs` is True if lookups may leave logs open, since no other process deletes or replaces them.
    """

    __slots__ = ("_last", "_limit", "_lock", "_segments", "holds_logs")

    def __init__(self, limit: int = SEGMENTS_MAX, *, holds_logs: bool = False) -> None:
        self.holds_logs = holds_logs
        self._limit = limit
        self._segments: OrderedDict[Segment, None] | None = None  # the one used last at the end; None up to the second
        self._last: Segment | None = None  # that one, which most lookups use again
        self._lock = Lock()

    def use(self, segment: Segment) -> Segment:
        """Note that the caller is about to use the segment, and return it."""
        if segment is self._last:
            return segment
        _all_segments.add(segment)
        released = None
        with self._lock:
            last, self._last = self._last, segment
            if last is None:
                return segment
            segments = self._segments
            if segments is None:
                segments = self._segments = OrderedDict({last: None})
            segments[segment] = None
            segments.move_to_end(segment)
            if len(segments) > self._limit:
                released, _ = segments.popitem(last=False)
        if released is not None:
            released.unload()
        return segment

    def release_logs(self) -> None:
        """Close the logs that lookups left open."""
        with self._lock:
            segments = list(self._segments or (self._last,))
        for segment in filter(None, segments):
            segment.own_files.release_log()
