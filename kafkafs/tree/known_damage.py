"""The damage of one log, which is looked for once in each segment as long as its file stays the same.

What looks for it is loaded when a reader asks, as few commands do.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from storage.files import FileStatus
    from storage.log import LogView, SegmentSlice
    from storage.verify import Finding


class _Looked(NamedTuple):
    """The ranges found in a segment's file when the file system said this of it."""

    mark: tuple[object, ...]
    ranges: tuple[Finding, ...]


class KnownDamage:
    """The ranges of a log that do not decode, as far as they were looked for. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()  # held while a log is read, so that one reader does
        self._looked: dict[int, _Looked] = {}

    def ranges(self, view: LogView) -> list[Finding]:
        """Return every range, in order. What is not known yet is read, which may take long."""
        with self._lock:
            bases = set(view.bases)
            for base in [base for base in self._looked if base not in bases]:
                del self._looked[base]
            return [found for part in view.slices(view.start_offset) for found in self._ranges(part)]

    def find(self, view: LogView, base_offset: int, position: int) -> Finding | None:
        """Return the range of a segment that begins at a position; None if none does. Other segments are not read."""
        with self._lock:
            part = next((each for each in view.slices(base_offset) if each.segment.base_offset == base_offset), None)
            found = () if part is None else self._ranges(part)
            return next((each for each in found if each.position == position), None)

    def unread_bytes(self, view: LogView) -> int:
        """Return how many bytes of the log would have to be read."""
        parts = ((part, self._looked.get(part.segment.base_offset)) for part in view.slices(view.start_offset))
        return sum(
            status.size_bytes
            for part, looked in parts
            if (status := part.segment.log_status()) is not None and (looked is None or looked.mark != _mark(status))
        )

    def _ranges(self, part: SegmentSlice) -> tuple[Finding, ...]:
        from storage.verify import damaged_ranges

        status = part.segment.log_status()
        looked = self._looked.get(part.segment.base_offset)
        if looked is None or status is None or looked.mark != _mark(status):
            ranges = tuple(damaged_ranges(part))
            if status is None:
                return ranges
            looked = self._looked[part.segment.base_offset] = _Looked(_mark(status), ranges)
        return looked.ranges


def _mark(status: FileStatus) -> tuple[object, ...]:
    return status.identity, status.size_bytes, status.modified_ms
