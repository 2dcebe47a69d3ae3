"""The place of one batch of a log, and all that decides about it: a row for programs, lines for people.

The batch is looked up by its offset as a reader looks it up, and named with the index entry that leads to it. Its
checksum is computed, and its records are decoded if it is right. No log is read but around the batch, unless the end of
its transaction or the last stable offset takes it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.dump.control_text import control_text
from storage.errors import CorruptBatchError, StorageError
from storage.files import as_uri, is_in_object_store
from storage.log import transaction_end
from storage.record import LegacyBatch, RecordBatch
from storage.segment import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from storage.cleanup import CompactionPlan, RetentionPlan
    from storage.clock import Clock
    from storage.log import FollowedLog, Log, LogView
    from storage.record import Batch, Record
    from storage.segment import Segment
    from storage.store import Store


class Partition(NamedTuple):
    """The log to look into: a topic's partition in a directory, or one that is no topic's."""

    topic: str
    number: int
    directory: Path
    log: Log | FollowedLog
    is_topics: bool


class Neighbour(NamedTuple):
    """The batch before or after another one."""

    first_offset: int
    last_offset: int
    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The batch that holds an offset, or the first one after it, as it was at one look at the log.

    `record` is None if no record has the offset: it was compacted away, or its batch does not decode, for the reason in
    `damage`. `index_entry` and `time_entry` are those from which a lookup of the offset, or of the batch's time, reads
    on; None where it reads from the segment's beginning. `epoch` is that of the batch's leader with its first offset.
    An offset below `log_start` is not read, even if its record is still in the file.
    """

    partition: Partition
    offset: int
    log_start: int
    log_end: int
    segment: Segment
    segment_end: int
    is_active: bool
    batch: Batch
    record: Record | None
    count: int | None
    records_bytes: int | None
    damage: str | None
    index_entry: tuple[int, int] | None
    time_entry: tuple[int, int] | None
    epoch: tuple[int, int, int | None] | None
    transaction: str | None
    control: str | None
    previous: Neighbour | None
    following: Neighbour | None
    retention: RetentionPlan | None
    compaction: CompactionPlan | None

    @property
    def end_position(self) -> int:
        """The position after the batch."""
        return self.batch.position + self.batch.size_bytes

    @property
    def path(self) -> str:
        """The log's file."""
        return as_uri(str(self.partition.directory / self.segment.name(Kind.LOG)))

    @property
    def dd(self) -> str:
        """The command that prints the batch's bytes and nothing else: of an object store, our own."""
        if is_in_object_store(self.path):
            store = as_uri(str(self.partition.directory.parent))
            log = f"{self.partition.topic}/{self.partition.number}"
            if not self.partition.is_topics:
                log = f".kafkafs/unattached/{self.partition.directory.name}"
            return f"kafkafs cat {shlex.quote(store)} {log}/offset/{self.batch.read_first_offset()}.batch"
        flags = "iflag=skip_bytes,count_bytes"
        place = f"skip={self.batch.position} count={self.batch.size_bytes}"
        return f"dd if={shlex.quote(self.path)} {flags} {place} status=none"

    @property
    def dump(self) -> str:
        """The command that prints the batch as the real tool does, which reads up to the batch's end."""
        files = f"--files {shlex.quote(self.path)} --max-bytes {self.end_position}"
        begins = f"/^baseOffset: {self.batch.read_first_offset()} /,$p"
        if isinstance(self.batch, LegacyBatch):
            begins = f"/ position: {self.batch.position} /,$p"
        if is_in_object_store(self.path):
            return f"kafkafs dump {shlex.quote(self.path)} | sed -n {shlex.quote(begins)}"
        return f"kafka-dump-log.sh --deep-iteration --print-data-log {files} | sed -n {shlex.quote(begins)}"


def explain(store: Store, partition: Partition, offset: int, clock: Clock) -> Explanation | None:
    """Explain the batch that holds an offset, or the first one after it; None if there is neither.

    Raises what reading the log raises, where damage hides the batch.
    """
    return partition.log.on_view(lambda view: _explained(store, partition, offset, view, clock))


def _explained(store: Store, partition: Partition, offset: int, view: LogView, clock: Clock) -> Explanation | None:
    if not view.segments or offset >= view.end_offset:
        return None
    batch = view.find(max(offset, view.start_offset))
    if batch is None:
        return None
    segment = view.segment_of(batch.last_offset)
    assert segment is not None
    part = next(view.slices(batch.last_offset))
    record, count, records_bytes, damage = _decoded(batch, offset)
    previous, following = _neighbours(view, segment, batch)
    is_known = damage is None and batch.is_transactional
    end = transaction_end(batch, view, partition.log.producers) if is_known else None
    retention, compaction = _plans(store, partition, view, clock)
    return Explanation(
        partition=partition,
        offset=offset,
        log_start=view.start_offset,
        log_end=view.end_offset,
        segment=segment,
        segment_end=segment.size_bytes if part.end is None else part.end,
        is_active=segment is view.segments[-1],
        batch=batch,
        record=record,
        count=count,
        records_bytes=records_bytes,
        damage=damage,
        index_entry=_index_entry(segment, offset),
        time_entry=_time_entry(segment, batch.max_timestamp),
        epoch=_epoch(partition.log, batch),
        transaction=None if end is None else end.value,
        control=_control(record) if batch.is_control else None,
        previous=previous,
        following=following,
        retention=retention,
        compaction=compaction,
    )


def _decoded(batch: Batch, offset: int) -> tuple[Record | None, int | None, int | None, str | None]:
    """Return the record at the offset, how many there are, the bytes of all, and why they do not decode."""
    found: Record | None = None
    count, size_bytes = 0, None
    try:
        batch.check_crc()
        for record in batch.checked_records():
            count += 1
            if record.offset == offset:
                found = record
        if isinstance(batch, RecordBatch):
            size_bytes = memoryview(batch.records_data()).nbytes if batch.count else 0
    except CorruptBatchError as error:
        return None, batch.count, None, error.reason
    return found, count, size_bytes, None


def _neighbours(view: LogView, segment: Segment, batch: Batch) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the batches before and after one, across segments; None where there is none, or damage."""
    first_offset = batch.read_first_offset()
    before: Batch | None = None
    after: Batch | None = None
    try:
        for each in segment.batches_near(first_offset - 1, batch.position):
            before = each
        earlier = view.segments[: view.segments.index(segment)]
        if before is None and earlier:
            for each in earlier[-1].batches_near(first_offset - 1, None):
                before = each
        if batch.last_offset + 1 < view.end_offset:
            after = view.find(batch.last_offset + 1)
    except CorruptBatchError:
        pass
    return None if before is None else _neighbour(before), None if after is None else _neighbour(after)


def _neighbour(batch: Batch) -> Neighbour:
    return Neighbour(batch.read_first_offset(), batch.last_offset, batch.position, batch.size_bytes)


def _index_entry(segment: Segment, offset: int) -> tuple[int, int] | None:
    try:
        entry = segment.offset_index.lookup(offset)
    except (StorageError, FileNotFoundError):
        return None
    return (entry.offset, entry.position) if entry.position > 0 else None


def _time_entry(segment: Segment, timestamp: int) -> tuple[int, int] | None:
    try:
        entry = segment.time_index.lookup(timestamp)
    except (StorageError, FileNotFoundError):
        return None
    return (entry.timestamp, entry.offset) if entry.timestamp >= 0 else None


def _epoch(log: Log | FollowedLog, batch: Batch) -> tuple[int, int, int | None] | None:
    """Return the batch's leader epoch, the offset at which it began, and the time of its first batch, if known."""
    try:
        found = next((each for each in log.epochs.entries if each.epoch == batch.leader_epoch), None)
        if found is None:
            return None
        first = log.view.find(max(found.offset, log.view.start_offset))
    except (StorageError, FileNotFoundError):
        return None
    return found.epoch, found.offset, None if first is None or first.max_timestamp < 0 else first.max_timestamp


def _control(record: Record | None) -> str | None:
    try:
        return None if record is None else control_text(record).strip()
    except StorageError:
        return None


def _plans(
    store: Store, partition: Partition, view: LogView, clock: Clock
) -> tuple[RetentionPlan | None, CompactionPlan | None]:
    from storage.store import StoreCompaction, StoreRetention

    if not partition.is_topics:
        return None, None
    retention = StoreRetention(store, clock).plan(partition.topic, partition.number, view)
    compaction = StoreCompaction(store, clock, wait=sleep).plan(partition.topic, partition.number, view)
    return retention, compaction
