"""The content generation of a log: it counts changes other than appends, rolls and deletions at the start.

Nodes show the same contents for as long as this number is the same. Each compaction, truncation by a leader and
recovery between two views raises it at least once; nothing that leaves offsets with their records does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.segment import FollowedSegment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.log import LogView
    from storage.segment import Segment


class _Known(NamedTuple):
    """A segment as it was seen, and the file that it had; None for a followed segment, which is not looked at."""

    segment: Segment
    file: tuple[int, int] | None


class Replacements:
    """Counts what has been replaced from view to view of one log; not for several threads at once."""

    __slots__ = ("_known", "_view", "count")

    def __init__(self) -> None:
        self.count = 0
        self._view: LogView | None = None
        self._known: dict[int, _Known] = {}

    def look(self, view: LogView) -> int:
        """Take in a newer view, and return the number."""
        before = self._view
        if view is before:
            return self.count
        if before is None or before.segments is not view.segments:
            known = {segment.base_offset: self._look_at(segment) for segment in view.segments}
            first_offset = min(known, default=view.end_offset)
            kept = ((base, each) for base, each in self._known.items() if base >= first_offset)
            if not _are_in(known, kept):
                self.count += 1
            self._known = known
        if before is not None and (before.truncations != view.truncations or before.end_offset > view.end_offset):
            self.count += 1
        self._view = view
        return self.count

    def _look_at(self, segment: Segment) -> _Known:
        known = self._known.get(segment.base_offset)
        if known is not None and known.segment is segment:
            return known
        return _Known(segment, None if isinstance(segment, FollowedSegment) else _file_of(segment))


def _are_in(known: dict[int, _Known], before: Iterable[tuple[int, _Known]]) -> bool:
    """True if all segments are unchanged."""
    return all(base in known and _is_same(each, known[base]) for base, each in before)


def _is_same(before: _Known, later: _Known) -> bool:
    if before.segment is later.segment:
        return True
    # A followed segment stays the same object until its batches are no longer those that were known.
    if before.file is None:
        return False
    return before.file == (_file_of(later.segment) if later.file is None else later.file)


def _file_of(segment: Segment) -> tuple[int, int] | None:
    status = segment.log_status()
    return None if status is None else status.identity
