"""A log in memory, as simple as it can be said: what the real one is compared with.

The model knows no files and no indexes; it answers every question by looking at every batch. It rolls by size and by
the time of records, as long as no index is full and offsets stay within a segment's range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class ModelRecord(NamedTuple):
    """A record, as far as a log cares."""

    offset: int
    timestamp: int
    value: bytes


@dataclass(frozen=True)
class ModelBatch:
    """Records that are appended together and have no offset missing between them."""

    records: tuple[ModelRecord, ...]
    size_bytes: int

    @property
    def first_offset(self) -> int:
        """Where it begins."""
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        """Where it ends."""
        return self.records[-1].offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp."""
        return max(record.timestamp for record in self.records)


@dataclass
class ModelSegment:
    """The batches from a base offset on."""

    base_offset: int
    batches: list[ModelBatch] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The size of its log."""
        return sum(batch.size_bytes for batch in self.batches)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, -1 for none."""
        return max((batch.max_timestamp for batch in self.batches), default=-1)


class ModelLog:
    """A log that begins at offset 0; an empty segment has no age."""

    def __init__(self, segment_bytes: int, segment_ms: int) -> None:
        self.segments = [ModelSegment(0)]
        self.start_offset = 0
        self.end_offset = 0
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms

    @property
    def bases(self) -> tuple[int, ...]:
        """Where the segments begin."""
        return tuple(segment.base_offset for segment in self.segments)

    @property
    def batches(self) -> list[ModelBatch]:
        """All batches, whether or not the log's start hides them."""
        return [batch for segment in self.segments for batch in segment.batches]

    def append(self, rows: list[tuple[int, bytes]], size_bytes: int) -> ModelBatch:
        """Append timestamps and values as one batch of this size."""
        records = tuple(ModelRecord(self.end_offset + index, *row) for index, row in enumerate(rows))
        batch = ModelBatch(records, size_bytes)
        active = self.segments[-1]
        if active.batches:
            waited_ms = batch.max_timestamp - active.batches[0].max_timestamp
            if active.size_bytes + size_bytes > self._segment_bytes or waited_ms > self._segment_ms:
                self.roll()
        self.segments[-1].batches.append(batch)
        self.end_offset = batch.last_offset + 1
        return batch

    def roll(self) -> None:
        """Begin a segment at the end, unless the last one is empty."""
        if self.segments[-1].batches:
            self.segments.append(ModelSegment(self.end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that has the offset, and all behind it."""
        if offset >= self.end_offset:
            return
        self.segments = [segment for segment in self.segments if segment.base_offset <= offset]
        last = self.segments[-1]
        last.batches = [batch for batch in last.batches if batch.last_offset < offset]
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset."""
        self.start_offset = max(self.start_offset, offset)

    def read(self, offset: int, max_bytes: int) -> list[ModelBatch]:
        """The batches from the one that holds the offset on: one, and then up to so many bytes."""
        found: list[ModelBatch] = []
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            if found and sum(each.size_bytes for each in found) + batch.size_bytes > max_bytes:
                break
            found.append(batch)
        return found

    def find_timestamp(self, timestamp: int) -> ModelRecord | None:
        """The first record that is not earlier, in the first segment that has any such record."""
        for segment in self.segments:
            if segment.largest_timestamp >= timestamp:
                records = (record for batch in segment.batches for record in batch.records)
                return next((r for r in records if r.timestamp >= timestamp and r.offset >= self.start_offset), None)
        return None

    def find_largest_timestamp(self) -> ModelRecord | None:
        """The first record with the largest timestamp."""
        records = [record for batch in self.batches for record in batch.records]
        return max(records, key=lambda record: record.timestamp, default=None)
