"""A log in memory, as simple as possible: tests compare the real one with it.

The model has no files and no indexes; it answers every question by looking at every batch. It rolls by size and by the
time of records, as long as no index is full and offsets stay within a segment's range. A producer's state follows from
its batches after the log's start: a log forgets those before it, sooner or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class ModelRecord(NamedTuple):
    """The parts of a record that matter to a log."""

    offset: int
    timestamp: int
    value: bytes


class ModelTransaction(NamedTuple):
    """A transaction; without a last offset, which is its marker's, it is open."""

    producer_id: int
    first_offset: int
    last_offset: int | None = None
    is_aborted: bool = False


@dataclass(frozen=True)
class ModelBatch:
    """Records that have no offset missing between them; a marker is one of them that `commits` or does not."""

    records: tuple[ModelRecord, ...]
    size_bytes: int
    leader_epoch: int = -1
    producer_id: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    commits: bool | None = None

    @classmethod
    def at(
        cls,
        offset: int,
        rows: Sequence[tuple[int, bytes]],
        size_bytes: int,
        *,
        leader_epoch: int = -1,
        producer_id: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        commits: bool | None = None,
    ) -> Self:
        """The batch of these timestamps and values that begins at an offset."""
        records = tuple(ModelRecord(offset + index, *row) for index, row in enumerate(rows))
        return cls(records, size_bytes, leader_epoch, producer_id, base_sequence, is_transactional, commits)

    @property
    def first_offset(self) -> int:
        """The first record's offset."""
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        """The last record's offset."""
        return self.records[-1].offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp."""
        return max(record.timestamp for record in self.records)

    @property
    def rows(self) -> list[tuple[int, bytes]]:
        """The timestamps and values."""
        return [(record.timestamp, record.value) for record in self.records]


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
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset


class ModelLog:
    """A log that begins at offset 0."""

    def __init__(self, segment_bytes: int, segment_ms: int) -> None:
        self.segments = [ModelSegment(0)]
        self.start_offset = 0
        self.end_offset = 0
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms

    @property
    def bases(self) -> tuple[int, ...]:
        """The base offsets of the segments."""
        return tuple(segment.base_offset for segment in self.segments)

    @property
    def batches(self) -> list[ModelBatch]:
        """All batches, whether or not the log's start hides them."""
        return [batch for segment in self.segments for batch in segment.batches]

    # Changes

    def append(self, *batches: ModelBatch) -> None:
        """Append batches together, at the offsets that they have."""
        active = self.segments[-1]
        size_bytes = sum(batch.size_bytes for batch in batches)
        if active.batches:
            waited_ms = max(batch.max_timestamp for batch in batches) - active.batches[0].max_timestamp
            if active.size_bytes + size_bytes > self._segment_bytes or waited_ms > self._segment_ms:
                self.segments.append(ModelSegment(batches[0].first_offset))
        self.segments[-1].batches.extend(batches)
        self.end_offset = batches[-1].last_offset + 1

    def roll(self) -> None:
        """Begin a segment at the end, unless the last one is empty."""
        if self.segments[-1].batches:
            self.segments.append(ModelSegment(self.end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that has the offset, and all after it; the log goes on after the last one left."""
        if offset >= self.end_offset:
            return
        self.segments = [segment for segment in self.segments if segment.base_offset <= offset]
        last = self.segments[-1]
        last.batches = [batch for batch in last.batches if batch.last_offset < offset]
        self.end_offset = last.next_offset
        self.start_offset = min(self.start_offset, self.end_offset)

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset."""
        self.start_offset = max(self.start_offset, offset)

    def reopen(self) -> None:
        """Close and open the log."""
        self.end_offset = max(self.segments[-1].next_offset, self.start_offset)

    def recover(self, next_offsets: Mapping[int, int]) -> None:
        """Keep of each segment, by its base, what lies before an offset; a log that ends before its start goes."""
        self.segments = [segment for segment in self.segments if segment.base_offset in next_offsets]
        for segment in self.segments:
            next_offset = next_offsets[segment.base_offset]
            segment.batches = [batch for batch in segment.batches if batch.last_offset < next_offset]
        if not self.segments or self.segments[-1].next_offset < self.start_offset:
            self.segments = [ModelSegment(self.start_offset)]
        self.reopen()

    def first_gap(self, offset: int) -> int | None:
        """The first segment's base from an offset on before which offsets are missing; None if there is no such one."""
        for segment, following in pairwise(self.segments):
            if following.base_offset >= offset and following.base_offset != segment.next_offset:
                return following.base_offset
        return None

    def lacks_offsets_within(self, end_offset: int) -> bool:
        """Return True if offsets before this one are missing within a segment, its beginning included."""
        for segment in self.segments:
            next_offset = segment.base_offset
            for batch in segment.batches:
                if batch.first_offset != next_offset and batch.last_offset < end_offset:
                    return True
                next_offset = batch.last_offset + 1
        return False

    # Questions

    def find(self, offset: int) -> ModelBatch | None:
        """The first batch that does not end before the offset."""
        return next((batch for batch in self.batches if batch.last_offset >= offset), None)

    def read(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[ModelBatch]:
        """The batches from the one that holds the offset on, one and then up to so many bytes, without aborted ones."""
        found: list[ModelBatch] = []
        bound = self.last_stable_offset if committed else self.end_offset
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            if batch.first_offset >= bound:
                break
            if found and sum(each.size_bytes for each in found) + batch.size_bytes > max_bytes:
                break
            found.append(batch)
        hidden = self._aborted_offsets() if committed else set()
        return [batch for batch in found if batch.commits is not None or batch.first_offset not in hidden]

    def _aborted_offsets(self) -> set[int]:
        """The base offsets of the batches of aborted transactions."""
        return {
            batch.first_offset
            for each in self.transactions()
            if each.is_aborted
            for batch in self.batches_of(each.producer_id)
            if each.last_offset is not None and each.first_offset <= batch.first_offset <= each.last_offset
        }

    def find_timestamp(self, timestamp: int) -> ModelRecord | None:
        """The first record from the log's start on that is not earlier."""
        records = (record for batch in self.batches for record in batch.records)
        return next((r for r in records if r.timestamp >= timestamp and r.offset >= self.start_offset), None)

    def find_largest_timestamp(self) -> ModelRecord | None:
        """The first record with the largest timestamp."""
        records = [record for batch in self.batches for record in batch.records]
        return max(records, key=lambda record: record.timestamp, default=None)

    # Producers and transactions

    def batches_of(self, producer_id: int) -> list[ModelBatch]:
        """The producer's batches from the log's start on, markers included."""
        known = (batch for batch in self.batches if batch.first_offset >= self.start_offset)
        return [batch for batch in known if batch.producer_id == producer_id]

    def next_sequence(self, producer_id: int) -> int:
        """The producer's next sequence; an unknown producer may begin at any, so also at this one."""
        sent = [batch for batch in self.batches if batch.producer_id == producer_id and batch.commits is None]
        return sent[-1].base_sequence + len(sent[-1].records) if sent else 0

    def transactions(self) -> Iterator[ModelTransaction]:
        """The transactions from the log's start on, those that are open at the end."""
        open_ones: dict[int, int] = {}
        for batch in self.batches:
            if batch.first_offset < self.start_offset or not batch.is_transactional:
                continue
            if batch.commits is None:
                open_ones.setdefault(batch.producer_id, batch.first_offset)
            else:
                first_offset = open_ones.pop(batch.producer_id, None)
                if first_offset is not None:  # a crash may leave a marker of what the segment before has lost
                    yield ModelTransaction(batch.producer_id, first_offset, batch.last_offset, not batch.commits)
        for producer_id, first_offset in open_ones.items():
            yield ModelTransaction(producer_id, first_offset)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the first open transaction, or the log's end."""
        unstable = (each.first_offset for each in self.transactions() if each.last_offset is None)
        return min(unstable, default=self.end_offset)

    def settled_before(self, offset: int) -> int:
        """The last offset up to this one that no transaction goes across."""
        for transaction in sorted(self.transactions(), key=lambda each: each.first_offset, reverse=True):
            last_offset = self.end_offset if transaction.last_offset is None else transaction.last_offset
            if transaction.first_offset < offset <= last_offset:
                offset = transaction.first_offset
        return offset

    def consumed(self, *, committed: bool = False) -> list[ModelRecord]:
        """Return the records that a consumer delivers."""
        hidden: set[int] = set()
        bound = self.end_offset
        if committed:
            bound, hidden = self.last_stable_offset, self._aborted_offsets()
        return [
            record
            for batch in self.batches
            if batch.commits is None and batch.first_offset < bound and batch.first_offset not in hidden
            for record in batch.records
            if record.offset >= self.start_offset
        ]
