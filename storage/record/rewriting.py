"""Batches made of batches, as brokers and cleaners do with existing data.

Records keep their offsets, even if others are left out. Only `assign_offset` changes a batch in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec, compress
from storage.record.kernel.encode import encode_records
from storage.record.kernel.records_data import patch_offset, seal
from storage.record.kernel.retained import RetainedRecords
from storage.record.layout import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.record.batch import RecordBatch
    from storage.record.kernel.decode import Record


def assign_offset(target: Buffer, *, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and the leader epoch into the v2 batch that a buffer begins with; no checksum covers them."""
    patch_offset(target, base_offset, leader_epoch)


def recompressed(
    batch: RecordBatch, codec: Codec, *, level: int | None = None, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
) -> bytes:
    """Return the batch with the same records under another codec, or at another level."""
    records_data = batch.records_data(limit_bytes=limit_bytes)
    return _sealed(
        batch,
        records_data if codec is Codec.NONE else compress(codec, records_data, level=level),
        attributes=batch.attributes & ~CODEC_MASK | codec,
    )


def retaining(
    batch: RecordBatch,
    records: Sequence[Record] | RetainedRecords,
    *,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Return the batch with only these of its records, as a cleaner leaves it.

    It keeps its range of offsets and sequences, its producer and its codec. A delete horizon that is set stays set; a
    batch without records has none.
    """
    if not (records.kept if isinstance(records, RetainedRecords) else records):
        return _sealed(
            batch,
            b"",
            attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            count=0,
        )
    horizon_ms = batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    if isinstance(records, RetainedRecords):
        records_data = records.records_data(records.first_timestamp if horizon_ms is None else horizon_ms)
    else:
        base_timestamp = records[0].timestamp if horizon_ms is None else horizon_ms
        records_data = encode_records(records, base_offset=batch.base_offset, base_timestamp=base_timestamp)
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _sealed(
        batch,
        records_data if batch.codec is Codec.NONE else compress(batch.codec, records_data, level=level),
        attributes=batch.attributes | (0 if horizon_ms is None else DELETE_HORIZON_BIT),
        base_timestamp=records_data.base_timestamp,
        max_timestamp=batch.max_timestamp if appended else records_data.max_timestamp,
        count=records_data.count,
    )


def merged(batches: Sequence[RecordBatch], codec: Codec, *, level: int | None = None) -> bytes:
    """Return one batch with the records of several, which follow on each other and agree in their header fields.

    It has their whole range of offsets and sequences.
    """
    first, last = batches[0], batches[-1]
    records = [record for batch in batches for record in batch.records()]
    records_data = encode_records(records, base_offset=first.base_offset)
    appended = first.timestamp_type is TimestampType.LOG_APPEND_TIME
    return seal(
        records_data if codec is Codec.NONE else compress(codec, records_data, level=level),
        base_offset=first.base_offset,
        leader_epoch=first.leader_epoch,
        attributes=first.attributes & ~CODEC_MASK | codec,
        last_offset_delta=last.last_offset - first.base_offset,
        base_timestamp=records_data.base_timestamp,
        max_timestamp=first.max_timestamp if appended else records_data.max_timestamp,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        count=records_data.count,
    )


def _sealed(
    batch: RecordBatch,
    records_data: Buffer,
    *,
    attributes: int,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    count: int | None = None,
) -> bytes:
    """The records under the batch's own header, except for the fields given."""
    return seal(
        records_data,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=batch.max_timestamp if max_timestamp is None else max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=batch.count if count is None else count,
    )
