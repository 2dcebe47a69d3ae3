"""The segments of a run of records, held open for a reader that goes from one to the next."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.content.held_files import HELD_FILES_MAX, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.content.held_files import HeldFiles
    from kafkafs.tree.visible_log import VisibleLog
    from storage.segment import Segment

COMMITTED_FILES_MAX: Final = 16
"""The most segments to hold where aborted records have to be found by their indexes while these exist."""


class HeldSegments:
    """Held segments of a view, within the budget: first those from the one that is read on, then those before it."""

    def __init__(self, held: HeldFiles, visible: VisibleLog, segments: Sequence[Segment]) -> None:
        self._held = held
        self._visible = visible
        self._segments = segments
        self._ahead = COMMITTED_FILES_MAX if visible.is_committed else HELD_FILES_MAX
        self._wanted: dict[Segment, Wanted | None] = {}
        self._lock = Lock()
        self._is_closed = False
        self.go_to(0)

    def go_to(self, offset: int) -> None:
        """Hold the segments from the one with the offset on, then the nearest ones before it."""
        first = sum(segment.base_offset <= offset for segment in self._segments[1:])
        ahead = self._segments[first : first + self._ahead]
        wanted = {segment: self._wanted.get(segment) or self._look_at(segment) for segment in ahead}
        for segment in reversed(self._segments[max(first + len(ahead) - self._ahead, 0) : first]):
            wanted[segment] = self._wanted.get(segment)
        with self._lock:
            if not self._is_closed:
                self._wanted = wanted
                self._held.want(self, [each for each in wanted.values() if each is not None], is_late=True)

    def has(self, segment: Segment) -> bool:
        """True if the segment is held."""
        wanted = self._wanted.get(segment)
        return wanted is not None and self._held.has(wanted.identity)

    def close(self) -> None:
        """Release the held segments."""
        with self._lock:
            self._is_closed = True
            self._held.want(self, (), is_late=True)

    def _look_at(self, segment: Segment) -> Wanted | None:
        status = segment.log_status()
        if status is None:
            return None
        try:
            self._visible.know_aborted(segment)
        except FileNotFoundError:
            return None
        segment.own_files.lend = partial(self._held.lend, status.identity)
        return Wanted(status.identity, segment, status.size_bytes)
