"""Batches made from batches: what brokers and cleaners change in data that exists already.

Offsets never change here, whatever is left out. `place` alone changes a batch where it lies; everything else leaves
the original as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec, compress
from storage.record.kernel.encode import encode_records
from storage.record.kernel.section import patch_placement, seal
from storage.record.kernel.survivors import Survivors
from storage.record.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.record.batch import RecordBatch
    from storage.record.kernel.decode import Record


def place(target: Buffer, *, base_offset: int, leader_epoch: int, start: int = 0) -> None:
    """Give the v2 batch at `start` of a writable buffer its place in a log; its checksum stays right as it is."""
    patch_placement(target, start=start, base_offset=base_offset, leader_epoch=leader_epoch)


def with_append_time(batch: RecordBatch, append_time_ms: int) -> bytes:
    """The batch with the broker's time in place of its records' own."""
    return _sealed(
        batch,
        batch.view(BATCH_HEADER_BYTES, batch.size_bytes),
        attributes=batch.attributes | LOG_APPEND_TIME_BIT,
        max_timestamp=append_time_ms,
    )


def recompressed(
    batch: RecordBatch, codec: Codec, *, level: int | None = None, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
) -> bytes:
    """The same records under another codec, or at another level."""
    section = batch.section(limit_bytes=limit_bytes)
    return _sealed(
        batch,
        section if codec is Codec.NONE else compress(codec, section, level=level),
        attributes=batch.attributes & ~CODEC_MASK | codec,
    )


def retaining(
    batch: RecordBatch,
    records: Sequence[Record] | Survivors,
    *,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch with these of its records alone, as a cleaner leaves it.

    It keeps its extent of offsets and sequences, its producer and its codec. A horizon that is set stays set; with
    no record left the batch is empty, and says nothing of horizons.
    """
    if not (records.kept if isinstance(records, Survivors) else records):
        return _sealed(
            batch,
            b"",
            attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            count=0,
        )
    horizon_ms = batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    if isinstance(records, Survivors):
        section = records.section(records.first_timestamp if horizon_ms is None else horizon_ms)
    else:
        base_timestamp = records[0].timestamp if horizon_ms is None else horizon_ms
        section = encode_records(records, base_offset=batch.base_offset, base_timestamp=base_timestamp)
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _sealed(
        batch,
        section if batch.codec is Codec.NONE else compress(batch.codec, section, level=level),
        attributes=batch.attributes | (0 if horizon_ms is None else DELETE_HORIZON_BIT),
        base_timestamp=section.base_timestamp,
        max_timestamp=batch.max_timestamp if appended else section.max_timestamp,
        count=section.count,
    )


def merged(batches: Sequence[RecordBatch], codec: Codec, *, level: int | None = None) -> bytes:
    """The records of batches that follow on each other, and agree in all that a batch says of its records, as one.

    It has their extent of offsets and sequences.
    """
    first, last = batches[0], batches[-1]
    records = [record for batch in batches for record in batch.records()]
    section = encode_records(records, base_offset=first.base_offset)
    appended = first.timestamp_type is TimestampType.LOG_APPEND_TIME
    return seal(
        section if codec is Codec.NONE else compress(codec, section, level=level),
        base_offset=first.base_offset,
        leader_epoch=first.leader_epoch,
        attributes=first.attributes & ~CODEC_MASK | codec,
        last_offset_delta=last.last_offset - first.base_offset,
        base_timestamp=section.base_timestamp,
        max_timestamp=first.max_timestamp if appended else section.max_timestamp,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        count=section.count,
    )


def _sealed(
    batch: RecordBatch,
    section: Buffer,
    *,
    attributes: int,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    count: int | None = None,
) -> bytes:
    """The section under the batch's own header, but for what is given."""
    return seal(
        section,
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
