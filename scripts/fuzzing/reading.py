"""Everything that a log gives when it is read by the package, to the last field.

Only errors of `storage` are expected, each naming the place it belongs to; everything else is a finding.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX
from storage.errors import CorruptBatchError, FramingError, StorageError
from storage.record import LegacyBatch, TimestampType, read_batches

if TYPE_CHECKING:
    from storage.record import Batch, Record

Row: TypeAlias = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp, sequence, key, value and headers."""


@dataclass(slots=True)
class BatchReading:
    """One batch, the rows it gave with the types of their timestamps, and the error that ended them."""

    batch: Batch
    rows: list[Row]
    timestamp_types: list[int]
    checksums_match: bool
    error: StorageError | None = None


@dataclass(slots=True)
class LogReading:
    """The batches of a log, where they end, and the error if that was not their end."""

    batches: list[BatchReading]
    position: int
    error: FramingError | None


def read_log(data: bytes) -> LogReading:
    """Read all that can be read."""
    walk = read_batches(in_exact_memory(data))
    batches: list[BatchReading] = []
    try:
        batches.extend(map(read_batch, walk))
    except FramingError as error:
        if error.position != walk.position:
            raise Finding("an error of framing is misplaced", f"{error}, the walk is at {walk.position}") from error
        return LogReading(batches, walk.position, error)
    if walk.position > len(data) or (walk.missing_bytes == 0) != (walk.position == len(data)):
        raise Finding("a walk ends wrongly", f"at {walk.position} of {len(data)}, missing {walk.missing_bytes}")
    return LogReading(batches, walk.position, None)


def in_exact_memory(data: bytes) -> array[int]:
    """Return a copy whose last byte is the last of its memory, so that who reads on is found out."""
    # The bytes of a bytes object are followed by one more, those of an array by room to grow unless it is a product.
    copy = array("B", b"0") * len(data)
    memoryview(copy)[:] = data
    return copy


def read_batch(batch: Batch) -> BatchReading:
    """Read every record of a batch."""
    reading = BatchReading(batch, [], [], batch.crc_matches)
    # Looked into only when what gave them is gone, because records may outlive everything.
    records: list[Record] = []
    try:
        if isinstance(batch, LegacyBatch):
            for entry in batch.entries(limit_bytes=OUTPUT_BYTES_MAX):
                records.append(entry.record)
                reading.checksums_match &= entry.crc_matches
        else:
            records.extend(batch.records(limit_bytes=OUTPUT_BYTES_MAX))
    except StorageError as error:
        check_error(error, batch.position)
        reading.error = error
    for record in records:
        _add(reading, record)
    return reading


def check_error(error: StorageError, position: int) -> None:
    """Raise `Finding` unless the error is a batch's, names its position, and was not a lack of memory."""
    if not isinstance(error, CorruptBatchError):
        raise Finding("an error is not one of batches", repr(error)) from error
    if error.position != position or not error.reason:
        raise Finding("an error lacks its reason or position", f"{error}, the batch is at {position}") from error
    if isinstance(error.__cause__, MemoryError):
        raise Finding("memory is asked for on the word of a stream", error) from error


def _add(reading: BatchReading, record: Record) -> None:
    key, value, batch = record.key, record.value, reading.batch
    for piece, size in ((key, record.key_size), (value, record.value_size)):
        if size < 0 if piece is None else len(piece) == size:
            continue
        raise Finding("a size is not that of its bytes", f"{size}, {piece!r}")
    if record.timestamp_type != batch.timestamp_type and (
        # Old cleaners put entries without a time into wrappers with one.
        batch.magic != 1 or record.timestamp_type != TimestampType.NONE
    ):
        raise Finding("a record has another timestamp type than its batch", f"{record.timestamp_type}")
    reading.timestamp_types.append(record.timestamp_type)
    reading.rows.append((record.offset, record.timestamp, record.sequence, key, value, record.headers))
