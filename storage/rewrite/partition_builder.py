"""A partition's log written anew in a directory of its own, from batches that have their offsets already.

Each segment stands under its name once it is complete, with its indexes, and on disk. What is written is a closed log:
its end, its leader epochs and its producers are said once all batches are there. That nobody takes a directory that
has not come so far for a partition is left to others.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.cleanup.cleaned_segments import CleanedSegments
from storage.log.epochs import LeaderEpochs
from storage.log.partition_metadata import write_topic_id
from storage.log.producers.snapshot import SnapshotFiles
from storage.record.layout import NO_TIMESTAMP
from storage.segment.accounting import per_batch
from storage.segment.replacement import replace_segments

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from storage.cleanup.kept_batch import KeptBatch
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.log.epochs import EpochStart
    from storage.log.producers.state import ProducerState
    from storage.record.reading import Batch
    from storage.segment.segment import Segment

_BUFFERED_BYTES_MAX: Final = 4 * 1024 * 1024
_LARGEST_AGE_MS: Final = 2**63 - 1


class PartitionBuilder:
    """The log in a directory that is empty; it is also what a compaction run gives what it keeps to.

    `segments` are those that stand there, and `size_bytes` how large they are together.
    """

    def __init__(self, files: Files, directory: str | os.PathLike[str], config: TopicConfig) -> None:
        self.segments = 0
        self.size_bytes = 0
        self._files = files
        self._directory = Path(directory)
        self._config = config
        self._limit_bytes = config.segment_bytes
        self._age_max_ms = config.segment_age_max_ms
        self._first_timestamp = NO_TIMESTAMP  # of the segment that is written
        self._open: CleanedSegments | None = None
        self._modified_ms = 0
        self._pending_bytes = 0
        self._next_offset = 0

    # Whole groups of segments, from a compaction run

    def begin(self, base_offset: int, limit_bytes: int) -> CleanedSegments:
        """A place for what is kept of a group of segments, the first of which begins at the offset."""
        kept = CleanedSegments(self._files, self._directory, self._config, per_batch, limit_bytes=limit_bytes)
        try:
            kept.begin(base_offset)
        except BaseException:
            kept.close()
            raise
        return kept

    def put_in_place(self, kept: CleanedSegments, old: Sequence[Segment] = ()) -> None:  # noqa: ARG002 -- those stay
        """Have what is finished be a part of this log; the segments that it was made of stay where they are."""
        replace_segments(self._files, self._directory, kept.bases, ())
        self.segments += len(kept.bases)
        self.size_bytes += kept.size_bytes

    def give_up(self, kept: CleanedSegments) -> None:
        """Let go of the files; the directory is nobody's any more."""
        kept.close()

    # Batch after batch

    def cut(self, base_offset: int, *, limit_bytes: int | None = None) -> None:
        """End the segment that is written, and begin one at the offset.

        It ends where the topic's segments do, for their size or their records' age, or else at `limit_bytes`.
        """
        self._end_segment()
        self._limit_bytes = self._config.segment_bytes if limit_bytes is None else limit_bytes
        self._age_max_ms = self._config.segment_age_max_ms if limit_bytes is None else _LARGEST_AGE_MS
        self._begin_segment(base_offset)

    def add(self, batch: Batch, kept: KeptBatch, modified_ms: int) -> None:
        """Write what is kept of the next batch, which was written last at this time; a segment has begun before."""
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
        """Have all of the log on disk, from the start offset up to the end, and what is beside its segments."""
        self._end_segment()
        if self._next_offset < end_offset or not self.segments:
            self._modified_ms = modified_ms
            self.cut(end_offset)
            self._end_segment()
        write_topic_id(self._files.directory(self._directory), topic_id)
        LeaderEpochs.make(self._files, self._directory, epochs)
        if end_offset > start_offset:
            SnapshotFiles(self._files, self._directory).write(end_offset, producers, sync=True)
        self._files.sync_directory(self._directory)

    def close(self) -> None:
        """Let go of what is open; harmless after `finish`."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _is_full(self, size_bytes: int, timestamp: int) -> bool:
        """Whether a batch of that size and time begins a segment."""
        if self._open is None or not self._open.size_bytes:
            return False
        is_old = self._first_timestamp >= 0 and timestamp - self._first_timestamp > self._age_max_ms
        return is_old or self._open.size_bytes + size_bytes > self._limit_bytes

    def _begin_segment(self, base_offset: int) -> None:
        self._open = self.begin(base_offset, self._limit_bytes)
        self._next_offset = max(self._next_offset, base_offset)

    def _end_segment(self) -> None:
        if self._open is not None:
            self._open.finish(self._modified_ms)
            self.put_in_place(self._open)
            self._open, self._pending_bytes = None, 0
