"""The damage of one log, which is looked for once in each segment as long as its file stays the same.

What looks for it is loaded when a reader asks, as few commands do.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.patience import Looks

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files import FileStatus
    from storage.log import LogView, SegmentSlice
    from storage.verify import Finding, LogDamage


_WAIT_S: Final = 0.5  # for others who are looking


class _Looked(NamedTuple):
    """What was found in a segment's file when it had this size and time, after so many truncations of its log."""

    identity: tuple[int, int]
    size_bytes: int
    modified_ms: int
    truncations: int
    damage: LogDamage

    def is_of(self, status: FileStatus) -> bool:
        """True if the file is as it was."""
        seen = (self.identity, self.size_bytes, self.modified_ms)
        return self.damage.is_whole and seen == (status.identity, status.size_bytes, status.modified_ms)

    def goes_on_in(self, status: FileStatus, truncations: int) -> bool:
        """True if the search goes on where it ended: the file has become longer, which only appending does."""
        return (
            self.identity == status.identity
            and self.size_bytes < status.size_bytes + (not self.damage.is_whole)
            and self.truncations == truncations
            and not self.damage.ranges
        )


class KnownDamage:
    """The ranges of a log that do not decode, as far as they were looked for. Any thread may use it."""

    __slots__ = ("_lock", "_looked", "_looks")

    def __init__(self) -> None:
        self._lock = Lock()  # held while a log is read, so that one reader does
        self._looked: dict[int, _Looked] = {}
        self._looks = Looks()

    def ranges(self, view: LogView) -> list[Finding]:
        """Return every range, in order. What is not known yet is read, which may take long."""
        with self._lock:
            bases = set(view.bases)
            for base in [base for base in self._looked if base not in bases]:
                del self._looked[base]
            return [found for part in view.slices(view.start_offset) for found in self._damage(view, part).ranges]

    def look(self, view: LogView) -> bool:
        """Look for the ranges; False if that takes longer than a `stat` may."""
        patience = self._looks.begin()
        if not self._lock.acquire(timeout=_WAIT_S):
            return False
        try:
            for part in view.slices(view.start_offset):
                is_new = part.segment.base_offset not in self._looked
                if (is_new and patience.is_over) or not self._damage(view, part, patience.is_lost).is_whole:
                    self._looks.end(patience)
                    return False
            return True
        finally:
            self._lock.release()

    def is_left_alone(self, view: LogView) -> bool:
        """True if a look took too long a moment ago and did not come to all segments: another would not either."""
        return self._looks.are_resting and not self._looked.keys() >= frozenset(view.bases)

    def find(self, view: LogView, base_offset: int, position: int) -> Finding | None:
        """Return the range of a segment that begins at a position; None if none does. Other segments are not read."""
        with self._lock:
            part = next((each for each in view.slices(base_offset) if each.segment.base_offset == base_offset), None)
            found = () if part is None else self._damage(view, part).ranges
            return next((each for each in found if each.position == position), None)

    def unread_bytes(self, view: LogView) -> int:
        """Return how many bytes of the log would have to be read."""
        return sum(
            self._unread_bytes(view, part.segment.base_offset, status)
            for part in view.slices(view.start_offset)
            if not self._is_read(part) and (status := part.segment.log_status()) is not None
        )

    def _is_read(self, part: SegmentSlice) -> bool:
        """True of a closed segment that was looked at to its end. `look` finds out if it was changed in its place."""
        looked = self._looked.get(part.segment.base_offset)
        return part.end is None and looked is not None and looked.damage.is_whole

    def _unread_bytes(self, view: LogView, base_offset: int, status: FileStatus) -> int:
        looked = self._looked.get(base_offset)
        if looked is None or not looked.goes_on_in(status, view.truncations):
            return 0 if looked is not None and looked.is_of(status) else status.size_bytes
        return status.size_bytes - looked.damage.position

    def _damage(self, view: LogView, part: SegmentSlice, is_cancelled: Callable[[], bool] = lambda: False) -> LogDamage:
        from storage.verify import damaged_ranges

        status = part.segment.log_status()
        looked = self._looked.get(part.segment.base_offset)
        if status is None:
            return damaged_ranges(part, is_cancelled=is_cancelled)
        if looked is None or not looked.is_of(status):
            goes_on = looked is not None and looked.goes_on_in(status, view.truncations)
            found = damaged_ranges(part, looked.damage if looked is not None and goes_on else None, is_cancelled)
            looked = self._looked[part.segment.base_offset] = _Looked(
                status.identity, status.size_bytes, status.modified_ms, view.truncations, found
            )
        return looked.damage
