"""What must hold for the header and the checksum of every batch that has been framed."""

from __future__ import annotations

import struct

from fuzzing.findings import Finding
from storage.errors import ChecksumError
from storage.record import LegacyBatch, RecordBatch, TimestampType
from storage.testing.batch_codec import BATCH_HEADER, HEADER_FIELDS, LOG_OVERHEAD_BYTES
from storage.testing.codec import LOG_APPEND_TIME, OracleBatch

ENTRY_HEADER = struct.Struct(">qiIbb")


def check_header(unit: bytes, position: int, batch: RecordBatch | LegacyBatch) -> None:
    """Raise `Finding` unless every field of the batch is what its bytes say."""
    placed = (batch.position, batch.size_bytes, bytes(batch.view(0, batch.size_bytes)))
    if placed != (position, len(unit), unit):
        raise Finding("a batch is not where it is", f"{placed}, not {position}, {len(unit)}")
    seen, expected = _entry_fields(unit, batch) if isinstance(batch, LegacyBatch) else _batch_fields(unit, batch)
    if seen != expected:
        raise Finding("a header is read wrongly", f"{seen}, not {expected}")


def check_checksum(batch: RecordBatch | LegacyBatch, *, matches: bool) -> None:
    """Raise `Finding` unless the batch says of its checksum what is known of it."""
    try:
        batch.check_crc()
    except ChecksumError as error:
        if matches or error.position != batch.position:
            raise Finding("a right checksum is refused, or the wrong one misplaced", error) from error
    else:
        if not matches:
            raise Finding("a wrong checksum is accepted", batch.checksum())
    if batch.crc_matches != matches:
        raise Finding("crc_matches contradicts check_crc", batch.crc_matches)


def _batch_fields(unit: bytes, batch: RecordBatch) -> tuple[tuple[object, ...], tuple[object, ...]]:
    fields = BATCH_HEADER.unpack_from(unit)
    oracle = OracleBatch(**dict(zip(HEADER_FIELDS, fields, strict=True)), records=())
    seen = (
        batch.base_offset,
        batch.size_bytes - LOG_OVERHEAD_BYTES,
        batch.leader_epoch,
        batch.magic,
        batch.crc,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
        batch.last_offset,
        batch.last_sequence,
        batch.is_transactional,
        batch.is_control,
        batch.timestamp_type is TimestampType.LOG_APPEND_TIME,
        batch.delete_horizon_ms,
    )
    expected = (
        *fields,
        oracle.last_offset,
        oracle.last_sequence,
        oracle.is_transactional,
        oracle.is_control,
        oracle.is_log_append_time,
        oracle.delete_horizon_ms,
    )
    return seen, expected


def _entry_fields(unit: bytes, batch: LegacyBatch) -> tuple[tuple[object, ...], tuple[object, ...]]:
    fields = ENTRY_HEADER.unpack_from(unit)
    seen = (
        batch.offset,
        batch.size_bytes - LOG_OVERHEAD_BYTES,
        batch.crc,
        batch.magic,
        batch.attributes,
        batch.last_offset,
        batch.timestamp_type is TimestampType.LOG_APPEND_TIME,
    )
    return seen, (*fields, fields[0], batch.magic == 1 and bool(batch.attributes & LOG_APPEND_TIME))
