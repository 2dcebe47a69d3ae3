"""One decoded batch, to be cached for more lookups of its records."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.record import RECORD_BYTES, LegacyBatch, read_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record import Batch, Record
    from storage.segment import Segment

_BATCH_BYTES: Final = 800  # what one takes besides its bytes and its records, with its place in a cache

_offset = attrgetter("offset")


class Decoded(NamedTuple):
    """The records of a batch, and what they take of memory besides the batch's own bytes."""

    records: Sequence[Record]
    size_bytes: int


class HeldBatch:
    """A batch apart from the log that it was read from, and those of its records that are visible.

    `size_bytes` is about the memory that it takes.
    """

    __slots__ = ("batch", "first_offset", "last_offset", "records", "segment", "size_bytes")

    def __init__(self, batch: Batch, segment: Segment, *, is_visible: bool) -> None:
        """Decode a copy of the batch; raises a `CorruptBatchError` if that cannot be done."""
        copy = next(read_batches(bytes(batch.view(0, batch.size_bytes)), origin=batch.position))
        records, size_bytes = decode(copy, all_are_read=False)
        self.batch = copy
        self.segment = segment
        self.last_offset = copy.last_offset
        self.first_offset = records[0].offset if copy.count is None else copy.base_offset
        self.records = records if is_visible else ()
        self.size_bytes = _BATCH_BYTES + copy.size_bytes + size_bytes

    def find(self, offset: int) -> Record | None:
        """The visible record at the offset."""
        records = self.records
        index = offset - self.first_offset
        if 0 <= index < len(records) and records[index].offset == offset:
            return records[index]
        index = bisect_left(records, offset, key=_offset)  # offsets are missing after a compaction
        return records[index] if index < len(records) and records[index].offset == offset else None


def decode(batch: Batch, *, all_are_read: bool = True) -> Decoded:
    """The records of a batch whose own checksum is right; raises a `CorruptBatchError` if they are no records.

    Of millions, only some of which are read, each is made when it is.
    """
    if isinstance(batch, LegacyBatch):
        return _decode_entries(batch)
    records = batch.record_sequence(all_are_read=all_are_read)
    return Decoded(records, records.size_bytes)


def _decode_entries(batch: LegacyBatch) -> Decoded:
    records: list[Record] = []
    size_bytes = 0
    for record in batch.checked_records():
        records.append(record)
        size_bytes += record.key_size + record.value_size + RECORD_BYTES
    return Decoded(records, size_bytes)
