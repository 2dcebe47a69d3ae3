"""Finding where another process truncated its log, by comparing what was known of the log with what it holds now.

Brokers do not announce truncations. A known batch that is still in its place proves that the log up to it is unchanged.
Further back leader epochs tell: no two leaders write in one epoch, so two logs are the same up to the first offset
whose epoch differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptCheckpointError
from storage.log.epochs import EPOCHS_NAME, LeaderEpochs
from storage.record.layout import BATCH_HEADER_BYTES
from storage.segment.followed_segment import FollowedSegment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory
    from storage.log.epoch_entries import EpochStart
    from storage.segment.followed_segment import SegmentEnd
    from storage.segment.segment import Segment

_MAGIC_AT = 16
_EPOCH_AT = 12


class KnownEpochs:
    """The leader epochs of a log, at least as new as the end last passed to `look`."""

    __slots__ = ("_end_position", "_entries")

    def __init__(self) -> None:
        self._entries: Sequence[EpochStart] = ()
        self._end_position = -1

    def look(self, directory: Directory, end: SegmentEnd, changed: Sequence[str] | None) -> None:
        """Load the epochs if the directory changed, to these names, or if the log's last batch has an unknown epoch."""
        is_new = end.position != self._end_position and _epoch_of(end) > self._latest()
        self._end_position = end.position
        if is_new or (changed is not None and EPOCHS_NAME in changed):
            self._entries = self._load(directory)
        elif changed is not None:
            self._entries = ()

    def first_difference(self, directory: Directory, end_offset: int) -> int | None:
        """Return the first offset below the end whose epoch is another now; None if there is none or it is unknown."""
        before, now = self._entries, self._load(directory)
        if not before or not now:
            return None
        start = max(before[0].offset, now[0].offset)
        offsets = {start, *(entry.offset for entry in (*before, *now) if entry.offset > start)}
        different = (offset for offset in sorted(offsets) if _epoch_at(before, offset) != _epoch_at(now, offset))
        return next((offset for offset in different if offset < end_offset), None)

    def _latest(self) -> int:
        return self._entries[-1].epoch if self._entries else -1

    def _load(self, directory: Directory) -> Sequence[EpochStart]:
        try:
            return LeaderEpochs.load(directory).entries
        except (CorruptCheckpointError, OSError):
            return ()


def find_cut(
    epochs: KnownEpochs,
    directory: Directory,
    before: Sequence[Segment],
    now: Sequence[Segment],
    changed: Sequence[FollowedSegment],
) -> int | None:
    """Return the offset at which the log was truncated between two looks at its segments; None if it was not.

    `changed` are segments, as they were, whose files are the same but hold other batches now.
    """
    last, newest = before[-1] if before else None, now[-1] if now else None
    if not isinstance(last, FollowedSegment) or not isinstance(newest, FollowedSegment):
        return None
    if last in now or last.known_end is None:
        return None
    for segment in changed:
        found = segment.common_offset()
        if found is not None:
            return found
    known_end, end_offset = last.known_end.next_offset, newest.end.next_offset
    found = epochs.first_difference(directory, known_end)
    if found is not None:
        return min(found, end_offset)
    if end_offset < known_end and (changed or not newest.size_bytes):
        return end_offset  # if only the last segments are missing, the files are being removed
    return changed[0].base_offset if changed else None


def _epoch_at(entries: Sequence[EpochStart], offset: int) -> int:
    return next((entry.epoch for entry in reversed(entries) if entry.offset <= offset), -1)


def _epoch_of(end: SegmentEnd) -> int:
    """Return the epoch of the last batch before an end; -1 if it has none."""
    header = end.header
    if len(header) < BATCH_HEADER_BYTES or header[_MAGIC_AT] < 2:
        return -1
    return int.from_bytes(header[_EPOCH_AT:_MAGIC_AT], "big", signed=True)
