"""The segment that a log appends to: its files as a live broker has them, and the changes that an append makes in each.

An append that fails leaves the segment as it was, unless undoing it fails too, which is an error of its own kind. The
log decides when to roll or flush, and which batches may be appended. One thread changes a segment; meanwhile another
may flush it, and any number may read it up to a `size_bytes` that they have seen.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from storage.errors import PoisonedLogError
from storage.record.batch import RecordBatch
from storage.record.layout import LARGEST_OFFSET_DELTA, NO_TIMESTAMP
from storage.segment.index.offset import OffsetIndexWriter
from storage.segment.index.time import TimeIndexWriter
from storage.segment.index.txn import TransactionIndexWriter
from storage.segment.names import SEGMENT_KINDS, FileName, Kind
from storage.segment.segment import Segment

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from storage.config import TopicConfig
    from storage.files import Directory, WritableFile
    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction


class PlacedBatches(NamedTuple):
    """Batches with their offsets in the log, and the buffers that hold them one after the other: one append.

    `first_offset` is the first batch's last offset if that is of an old version, whose first offset is not known
    without decompressing it.
    """

    buffers: Sequence[Buffer]
    batches: Sequence[Batch]
    first_offset: int
    last_offset: int
    size_bytes: int
    largest_timestamp: int

    @classmethod
    def of(cls, batches: Sequence[Batch], *buffers: Buffer) -> Self:
        """Return the append of all batches in these buffers; at least one."""
        first, last = batches[0], batches[-1]
        if first is last:  # as a rule; it makes an append shorter
            return cls(buffers, batches, first.base_offset, first.last_offset, first.size_bytes, first.max_timestamp)
        return cls(
            buffers,
            batches,
            first.base_offset,
            last.last_offset,
            sum(batch.size_bytes for batch in batches),
            max(batch.max_timestamp for batch in batches),
        )

    def segment_base(self, end_offset: int) -> int:
        """Return the base offset of a segment that is rolled for them in a log that ends at `end_offset`."""
        is_known = isinstance(self.batches[0], RecordBatch)
        return max(end_offset, self.first_offset if is_known else self.last_offset - LARGEST_OFFSET_DELTA)


class WritableSegment(Segment):
    """A segment whose files only this process writes. `created_ms` is when it became the active segment."""

    __slots__ = (
        "_bytes_since_entry",
        "_index_interval_bytes",
        "_is_finalised",
        "_is_named_on_disk",
        "_log",
        "_offset_index",
        "_time_index",
        "_transaction_index",
        "created_ms",
        "jitter_ms",
    )

    _log: WritableFile
    _size_bytes: int
    _largest: tuple[int, int]
    _offset_index: OffsetIndexWriter
    _time_index: TimeIndexWriter
    _transaction_index: TransactionIndexWriter

    def __init__(
        self,
        directory: Directory,
        base_offset: int,
        config: TopicConfig,
        *,
        now_ms: int,
        jitter_ms: int,
        share_files_with: Segment | None = None,
    ) -> None:
        """Do what `create` and `open_writing` have in common."""
        super().__init__(directory, base_offset, size_bytes=0, share_files_with=share_files_with)
        self.created_ms = now_ms
        self.jitter_ms = jitter_ms
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0
        self._largest = (NO_TIMESTAMP, base_offset)
        self._is_named_on_disk = True
        self._is_finalised = False

    @classmethod
    def create(
        cls,
        directory: Directory,
        base_offset: int,
        config: TopicConfig,
        *,
        now_ms: int,
        jitter_ms: int = 0,
    ) -> Self:
        """Make an empty segment and replace files of its names.

        An error leaves no segment; if its files cannot be removed, it is a `PoisonedLogError`.
        """
        segment = cls(directory, base_offset, config, now_ms=now_ms, jitter_ms=jitter_ms)
        segment._is_named_on_disk = False
        opened: list[WritableFile | OffsetIndexWriter | TimeIndexWriter] = []
        try:
            segment.remove_files()
            log = directory.open_writing(segment.name(Kind.LOG), create=True, exclusive=True)
            opened.append(log)
            if config.preallocate:
                log.allocate(config.segment_bytes)
            index_bytes = config.segment_index_bytes
            offset_index = OffsetIndexWriter.create(
                directory, segment.name(Kind.OFFSET_INDEX), base_offset, index_bytes
            )
            opened.append(offset_index)
            time_index = TimeIndexWriter.create(directory, segment.name(Kind.TIME_INDEX), base_offset, index_bytes)
        except BaseException:
            with undoing(segment.path(Kind.LOG)):
                for each in opened:
                    each.close()
                segment.remove_files()
            raise
        segment._log, segment._offset_index, segment._time_index = log, offset_index, time_index
        segment._transaction_index = TransactionIndexWriter(
            directory, segment.name(Kind.TRANSACTION_INDEX), base_offset
        )
        return segment

    @classmethod
    def open_writing(
        cls,
        directory: Directory,
        base_offset: int,
        config: TopicConfig,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        share_files_with: Segment | None = None,
    ) -> Self:
        """Open a segment to append to it. Its files are whole, and its log ends with its last batch."""
        segment = cls(
            directory, base_offset, config, now_ms=now_ms, jitter_ms=jitter_ms, share_files_with=share_files_with
        )
        log = directory.open_writing(segment.name(Kind.LOG))
        opened: list[WritableFile | OffsetIndexWriter | TimeIndexWriter] = [log]
        try:
            segment._size_bytes = log.size_bytes()
            for index_type, kind in ((OffsetIndexWriter, Kind.OFFSET_INDEX), (TimeIndexWriter, Kind.TIME_INDEX)):
                name = segment.name(kind)
                open_index = index_type.create if directory.status(name) is None else index_type.open
                index = open_index(directory, name, base_offset, config.segment_index_bytes)
                opened.append(index)
                index.expand()
                if isinstance(index, OffsetIndexWriter):
                    segment._offset_index = index
                else:
                    segment._time_index = index
            name = segment.name(Kind.TRANSACTION_INDEX)
            segment._transaction_index = TransactionIndexWriter.open(directory, name, base_offset)
        except BaseException:
            with suppress(OSError):
                for each in opened:
                    each.close()
            raise
        segment._log = log
        segment._largest = segment._time_index.last_entry
        return segment

    @property
    def offset_index(self) -> OffsetIndexWriter:
        """The index from offsets to positions."""
        return self._offset_index

    @property
    def time_index(self) -> TimeIndexWriter:
        """The index from timestamps to offsets."""
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndexWriter:
        """The index of the transactions that were aborted in this segment."""
        return self._transaction_index

    def append(self, placed: PlacedBatches) -> None:
        """Write batches and index each of them.

        After an `Exception` nothing was appended; after a `PoisonedLogError` or another `BaseException` some of it may
        have been. The indexes have their space before anything is written.
        """
        self._reserve(placed)
        position = self._size_bytes
        before = (self._bytes_since_entry, self._largest, self._first_timestamp)
        counts: tuple[int, int] | None = None
        try:
            self._log.write_at(position, placed.buffers)
            at = position
            for batch in placed.batches:
                timestamp, last_offset, size_bytes = batch.max_timestamp, batch.last_offset, batch.size_bytes
                if timestamp > self._largest[0]:
                    self._largest = (timestamp, last_offset)
                if at == 0:
                    self._first_timestamp = timestamp
                if self._bytes_since_entry > self._index_interval_bytes:
                    if counts is None:
                        counts = (self._offset_index.entries_count, self._time_index.entries_count)
                    self._offset_index.append(last_offset, at)
                    self._time_index.maybe_append(*self._largest)
                    self._bytes_since_entry = 0
                self._bytes_since_entry += size_bytes
                at += size_bytes
        except Exception:
            self._bytes_since_entry, self._largest, self._first_timestamp = before
            with undoing(self._log.path):
                self._undo(position, counts)
            raise
        self._size_bytes = at

    def _reserve(self, placed: PlacedBatches) -> None:
        """Allocate index space for the entries of an append, and for the final entry of the time index."""
        indexed_bytes = self._bytes_since_entry + placed.size_bytes
        entries = min(len(placed.batches), indexed_bytes // (self._index_interval_bytes + 1))
        self._offset_index.reserve(entries)
        self._time_index.reserve(entries + 1)

    def _undo(self, position: int, counts: tuple[int, int] | None) -> None:
        if self._log.size_bytes() > position:
            # In a preallocated log this frees the space: zeros must follow the last batch.
            self._log.truncate(position)
            self._log.sync()  # or else the refused batches may be back after a loss of power
        if counts is not None:
            self._offset_index.truncate_to_entries(counts[0])
            self._time_index.truncate_to_entries(counts[1])

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Index a transaction whose abort marker is the last batch."""
        self._transaction_index.append(transaction)

    def sync_log(self) -> None:
        """Return when the batches and the aborted transactions are on disk, from which the rest can be rebuilt."""
        self._log.sync()
        self._transaction_index.flush()
        if not self._is_named_on_disk:
            self.directory.sync()
            self._is_named_on_disk = True

    def flush(self) -> None:
        """Return when all of the segment is on disk. A resting segment is on disk already."""
        if self.is_resting:
            return
        self._log.sync()
        self._offset_index.flush()
        self._time_index.flush()
        self._transaction_index.flush()
        if not self._is_named_on_disk:
            self.directory.sync()
            self._is_named_on_disk = True

    def finalise(self) -> None:
        """Give the files the form that they have in an inactive segment; they stay open to be flushed.

        A full disk causes no error.
        """
        self._is_finalised = True
        if self._largest[0] >= 0:
            self._time_index.maybe_append(*self._largest, final=True)
        self._offset_index.trim()
        self._time_index.trim()
        if self._log.size_bytes() > self._size_bytes:
            self._log.truncate(self._size_bytes)

    def prepare(self) -> None:
        """Make room in the indexes for the next append, if the segment was finalised; entries are kept."""
        if self._is_finalised:
            self._offset_index.expand()
            self._time_index.expand()
            self._is_finalised = False

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop the batch that has the offset, and everything after it. Appends may follow.

        The log's new length is on disk when this returns.
        """
        position = self.locate(offset)
        self._offset_index.truncate_to(offset)
        self._time_index.truncate_to(offset)
        self._transaction_index.truncate_to(offset)
        self._offset_index.expand()
        self._time_index.expand()
        self._is_finalised = False
        if position is not None:
            self._log.truncate(position)
            self._size_bytes = position
        self._log.sync()
        if self._size_bytes == 0:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._bytes_since_entry = 0
        self._largest = self.read_largest_timestamp()

    def closed(self) -> Segment:
        """Return the segment as readers see it once it is finished."""
        return Segment(self.directory, self.base_offset, size_bytes=self._size_bytes, share_files_with=self)

    def unload(self) -> None:
        """Close the log's descriptor for lookups. The indexes are mapped, and hold no memory of their own."""
        self.own_files.release_log()

    @property
    def is_resting(self) -> bool:
        """True if it holds no descriptors, and must be woken before it is changed."""
        return self._log.is_resting

    def rest(self) -> None:
        """Close the descriptors until `wake`; all of the segment is on disk. Readers go on."""
        for each in (self._offset_index, self._time_index, self._transaction_index, self._log):
            each.rest()

    def wake(self) -> None:
        """Open the files again, unchanged; raises, and stays at rest, if one cannot be opened or is gone."""
        try:
            for each in (self._offset_index, self._time_index, self._transaction_index, self._log):
                each.wake()
        except BaseException:
            self.rest()
            raise

    def close(self) -> None:
        """Close the files, even if closing one of them fails. Closing twice is harmless."""
        try:
            self._offset_index.close()
        finally:
            try:
                self._time_index.close()
            finally:
                self._transaction_index.close()
                self._log.close()

    def remove_files(self) -> None:
        """Unlink the segment's files, the log first: without it the others mean nothing."""
        remove_segment_files(self.directory, self.base_offset)


@contextmanager
def undoing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise `PoisonedLogError` if undoing a failed change fails too."""
    try:
        yield
    except Exception as error:
        raise PoisonedLogError(f"what a failed change left behind cannot be removed: {error}", path=path) from error


def remove_segment_files(directory: Directory, base_offset: int) -> None:
    """Remove a segment's files, the log first: after a crash recovery recognises the others as leftovers."""
    for kind in SEGMENT_KINDS:
        with suppress(FileNotFoundError):
            directory.remove(str(FileName(base_offset, kind)))
