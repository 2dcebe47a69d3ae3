"""A partition's log read and written into a built store: the common part of compacting and rewriting.

The source may be in use by a broker, and is not changed. The copy has the log as one view shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from storage.cleanup.latest_offsets import sound_batches
from storage.errors import CorruptBatchError
from storage.log.followed_log import FollowedLog
from storage.rewrite.log_pieces import slice_bytes
from storage.rewrite.partition_builder import PartitionBuilder
from storage.rewrite.topics import BuiltPartition
from storage.segment.names import Kind
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.view import LogView, SegmentSlice
    from storage.log_dir.checkpoints import Partition
    from storage.record.reading import Batch
    from storage.rewrite.store_builder import StoreBuilder
    from storage.segment.index.entries import AbortedTransaction
    from storage.store.store import Store


class CopiedBatch(NamedTuple):
    """A sound batch, and the transaction that it aborts, if it is an abort marker."""

    batch: Batch
    aborted: AbortedTransaction | None
    modified_ms: int


class LogCopier:
    """One attempt to copy a log into a directory, through its `builder`.

    `config` is that of the topic in the new store. With `rolls` the active segment is treated as a closed one.
    """

    def __init__(
        self, store: Store, build: StoreBuilder, partition: Partition, directory: Directory, *, rolls: bool = False
    ) -> None:
        topic, number = partition
        self.partition = partition
        self.directory = directory
        self.config: TopicConfig = store.config.topic(build.topics[topic].known.settings)
        log = store.log(topic, number)
        assert isinstance(log, FollowedLog)
        self.log = log
        self.view: LogView = log.view
        self.producers = log.producers_of(self.view).states()
        if rolls and self.view.end_position:
            self.view = self._rolled()
        self.builder = PartitionBuilder(directory, self.config)
        self._build = build
        self._aborted = {
            transaction.last_offset: transaction
            for transaction in self.view.aborted(self.base_offset, self.view.end_offset)
        }

    def _rolled(self) -> LogView:
        view = self.view
        last = view.segments[-1]
        closed = Segment(self.log.directory, last.base_offset, size_bytes=view.end_position, share_files_with=last)
        return view.rolled(closed, Segment(self.directory, view.end_offset, size_bytes=0))

    @property
    def base_offset(self) -> int:
        """The base offset of the first segment; the log's end offset if it has none."""
        return self.view.segments[0].base_offset if self.view.segments else self.view.end_offset

    @property
    def size_bytes(self) -> int:
        """The size of the segments, each up to the end of its last batch."""
        return sum(map(slice_bytes, self.slices()))

    def slices(self) -> Iterable[SegmentSlice]:
        """Return all segments of the log."""
        return self.view.slices(self.base_offset) if self.view.segments else ()

    def batches(self, part: SegmentSlice) -> Iterator[CopiedBatch]:
        """Yield the batches of a segment; raises `CorruptBatchError` at damage."""
        segment = part.segment
        if not slice_bytes(part):
            return
        status = segment.log_status()
        modified_ms = 0 if status is None else status.modified_ms
        try:
            for batch in sound_batches(segment.batches(0, part.end), segment.base_offset, part.end_offset):
                yield CopiedBatch(batch, self._aborted.get(batch.last_offset), modified_ms)
            segment.check_end(part.end)
        except CorruptBatchError as error:
            raise error.located(path=segment.path(Kind.LOG)) from None

    def finish(self) -> None:
        """Write the rest of the copy, durably."""
        topic_id = self._build.topics[self.partition[0]].known.topic_id
        assert topic_id is not None
        last = self.view.segments[-1].log_status() if self.view.segments else None
        self.builder.finish(
            self.view.start_offset,
            self.view.end_offset,
            modified_ms=self._build.begun_ms if last is None else last.modified_ms,
            epochs=self.log.epochs.entries,
            producers=self.producers,
            topic_id=topic_id,
        )

    def put(self, first_dirty_offset: int | None, stats: dict[str, Any]) -> None:
        """Pass the copy to the store's builder, with its stats."""
        built = BuiltPartition(
            base_offset=self.base_offset,
            start_offset=self.view.start_offset,
            end_offset=self.view.end_offset,
            first_dirty_offset=first_dirty_offset,
            stats=stats,
        )
        self._build.put(self.directory, self.partition, built)
