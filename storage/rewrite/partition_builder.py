"""A partition's log written into an empty directory, from batches that have their offsets already.

A segment gets its name once it is complete, with its indexes, and on disk. The result is a properly closed log, with
its leader epochs and a producer snapshot at its end. `StoreBuilder` keeps incomplete directories from being partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.cleanup.cleaned_segments import CleanedSegments
from storage.log.epochs import LeaderEpochs
from storage.log.partition_metadata import write_topic_id
from storage.log.producers.snapshot import SnapshotFiles
from storage.record.layout import NO_TIMESTAMP
from storage.rewrite.log_pieces import BuiltSegments
from storage.segment.replacement import replace_segments
from storage.segment.rolling import outgrown_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from storage.cleanup.batch_filter import KeptBatch
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.epoch_entries import EpochStart
    from storage.log.producers.state import ProducerState
    from storage.record.reading import Batch
    from storage.segment.segment import Segment

_BUFFERED_BYTES_MAX: Final = 4 * 1024 * 1024
_LARGEST_AGE_MS: Final = 2**63 - 1


class PartitionBuilder:
    """Builds the log, batch by batch or from the groups of segments of a compaction run.

    `segments` is the number of complete segments, and `size_bytes` their size.
    """

    def __init__(self, directory: Directory, config: TopicConfig) -> None:
        self.segments = 0
        self.size_bytes = 0
        self._directory = directory
        self._config = config
        self._limit_bytes = config.segment_bytes
        self._age_max_ms = config.segment_age_max_ms
        self._first_timestamp = NO_TIMESTAMP  # of the current segment
        self._open: CleanedSegments | None = None
        self._modified_ms = 0
        self._pending_bytes = 0
        self._next_offset = 0

    # Whole groups of segments, from a compaction run

    def begin(self, base_offset: int, limit_bytes: int) -> CleanedSegments:
        """Begin the segments that replace a group of segments, the first of them at the offset."""
        kept = CleanedSegments(self._directory, self._config, limit_bytes=limit_bytes)
        try:
            kept.begin(base_offset)
        except BaseException:
            kept.close()
            raise
        return kept

    def put_in_place(self, kept: CleanedSegments, old: Sequence[Segment] = ()) -> None:  # noqa: ARG002 -- those stay
        """Make finished segments part of this log; the segments that they replace stay in their own log."""
        replace_segments(self._directory, kept.bases, ())
        self.segments += len(kept.bases)
        self.size_bytes += kept.size_bytes

    def give_up(self, kept: CleanedSegments) -> None:
        """Close the files; the attempt is discarded."""
        kept.close()

    # Segments that were built elsewhere

    def built(self) -> BuiltSegments:
        """End the current segment, and return what was built up to now, for the builder of the whole log to `adopt`."""
        self._end_segment()
        self._directory.sync()
        return BuiltSegments(self._directory.name, self.segments, self.size_bytes, self._next_offset)

    def adopt(self, directory: Directory, built: BuiltSegments) -> None:
        """End the current segment, and move segments that were built in another directory here.

        What follows them begins with `cut`.
        """
        self._end_segment()
        for name in directory.names():
            directory.rename(name, name, self._directory)
        self.segments += built.segments
        self.size_bytes += built.size_bytes
        self._next_offset = built.next_offset

    # Batch after batch

    def cut(self, base_offset: int, *, limit_bytes: int | None = None) -> None:
        """End the current segment and begin one at the offset.

        A segment is rolled by the topic's settings, or only at `limit_bytes` if given.
        """
        self._end_segment()
        self._limit_bytes = self._config.segment_bytes if limit_bytes is None else limit_bytes
        self._age_max_ms = self._config.segment_age_max_ms if limit_bytes is None else _LARGEST_AGE_MS
        self._begin_segment(base_offset)

    def add(self, batch: Batch, kept: KeptBatch, modified_ms: int) -> None:
        """Write the next batch to the current segment, and set the segment's modification time to this one."""
        size_bytes = memoryview(kept.data).nbytes
        if self._is_full(size_bytes, batch.max_timestamp):
            self._end_segment()
            self._begin_segment(batch.read_first_offset())
        assert self._open is not None
        if not self._open.size_bytes:
            self._first_timestamp = batch.max_timestamp
        self._open.add(batch, kept)
        self._modified_ms = modified_ms
        self._next_offset = batch.last_offset + 1
        self._pending_bytes += size_bytes
        if self._pending_bytes > _BUFFERED_BYTES_MAX:
            self._open.flush()
            self._pending_bytes = 0

    def finish(
        self,
        start_offset: int,
        end_offset: int,
        *,
        modified_ms: int,
        epochs: Iterable[EpochStart],
        producers: Iterable[ProducerState],
        topic_id: UUID,
    ) -> None:
        """Complete the log, durably: its last segment, its topic id, leader epochs and producers."""
        self._end_segment()
        if self._next_offset < end_offset or not self.segments:
            self._modified_ms = modified_ms
            self.cut(end_offset)
            self._end_segment()
        write_topic_id(self._directory, topic_id)
        LeaderEpochs.make(self._directory, epochs)
        if end_offset > start_offset:
            SnapshotFiles(self._directory).write(end_offset, producers, sync=True)
        self._directory.sync()

    def close(self) -> None:
        """Close the files; harmless after `finish`."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _is_full(self, size_bytes: int, timestamp: int) -> bool:
        """Return True if a batch of that size and time begins a new segment."""
        if self._open is None or not self._open.size_bytes:
            return False
        age_ms = timestamp - self._first_timestamp if self._first_timestamp >= 0 else 0
        used_bytes = self._open.size_bytes
        return outgrown_reason(used_bytes, size_bytes, self._limit_bytes, age_ms, self._age_max_ms) is not None

    def _begin_segment(self, base_offset: int) -> None:
        self._open = self.begin(base_offset, self._limit_bytes)
        self._next_offset = max(self._next_offset, base_offset)

    def _end_segment(self) -> None:
        if self._open is not None:
            self._open.finish(self._modified_ms)
            self.put_in_place(self._open)
            self._open, self._pending_bytes = None, 0
