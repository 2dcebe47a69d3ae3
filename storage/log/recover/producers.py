"""The producers of a log during recovery: as of the beginning of the segments that are read."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from storage.log.producers.producers import ProducerStates
from storage.log.producers.replay import replay
from storage.log.producers.snapshot import SnapshotFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory
    from storage.log.recover.snapshots import RecoveredSnapshots
    from storage.segment.segment import Segment


class ProducersRecovery:
    """Loads the producers of one log as of a segment, from a snapshot and the batches since.

    The segments are all of the log's, ascending, and the log begins at `start_offset` or at the first of them.
    """

    def __init__(
        self,
        directory: Directory,
        segments: Sequence[Segment],
        snapshots: RecoveredSnapshots,
        *,
        start_offset: int,
        expiration_ms: int,
        now_ms: int,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._snapshots = snapshots
        # A snapshot from before the first segment lacks batches that retention has deleted: its sequences are outdated.
        self._load_after = max(start_offset, segments[0].base_offset - 1 if segments else 0)
        self._expiration_ms = expiration_ms
        self._now_ms = now_ms
        self._trusted: ProducerStates | None = None

    def before_trusted(self, index: int) -> ProducerStates:
        """Return the producers as of the beginning of a trusted segment, later than those of earlier calls.

        They are those that the last call returned, with what the caller has applied since, or those of a newer
        snapshot: a log that lacks the indexes of one segment may lack those of all. No snapshot is removed.
        """
        offsets, producers = self._snapshots.offsets, self._trusted
        after = self._load_after if producers is None else producers.end_offset
        newer = offsets[bisect_right(offsets, after) : bisect_right(offsets, self._segments[index].base_offset)]
        if producers is None or newer:
            snapshots = SnapshotFiles(self._directory, read_only=True, offsets=newer)
            loaded = self._load(snapshots, index, after)
            if producers is None or snapshots.offsets:  # one of them can be read
                producers = loaded
        self._replay(producers, index)
        self._trusted = producers
        return producers

    def before_unsure(self, index: int) -> ProducerStates:
        """Return the producers as of the beginning of the first segment that is not trusted.

        They write their snapshots, and those that are not of the trusted segments are removed.
        """
        producers = self._load(self._snapshots, index, self._load_after)
        self._replay(producers, index)
        return producers

    def _load(self, snapshots: SnapshotFiles, index: int, after: int) -> ProducerStates:
        producers = ProducerStates(self._directory, expiration_ms=self._expiration_ms, snapshots=snapshots)
        producers.truncate_and_reload(after, self._segments[index].base_offset, self._now_ms)
        return producers

    def _replay(self, producers: ProducerStates, index: int) -> None:
        """Apply the batches before a segment that the producers do not have."""
        segments, end_offset = self._segments, self._segments[index].base_offset
        if producers.end_offset >= end_offset:
            return
        first = bisect_right(segments, producers.end_offset, hi=index, key=lambda segment: segment.base_offset) - 1
        earlier = segments[max(first, 0) : index]
        if earlier:
            replay(producers, earlier, end_offset)
        for segment in earlier:
            segment.unload()
