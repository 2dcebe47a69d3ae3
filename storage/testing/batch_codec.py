"""RecordBatch v2: decoded by the rules of the JVM, encoded exactly as told.

Decoding one batch expects its bytes alone; `storage.testing.codec` finds where each batch begins and ends.
Encoding computes the length and the checksum and writes every other field as given, sense or nonsense.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from storage.errors import ChecksumError, FramingError, MalformedRecordsError
from storage.testing.checksums import crc32c
from storage.testing.compressed import compress, decompress
from storage.testing.integers import read_varint32, read_varint64, wrap32, wrap64, write_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_OVERHEAD_BYTES = 12
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
CRC_POSITION = 17
CRC_COVERS_FROM = 21

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NONE_ID = -1
NO_TIMESTAMP = -1
LAST_SEQUENCE = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class OracleRecord:
    """A record of any magic as a consumer sees it: absolute offset, effective timestamp."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    sequence: int = NONE_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleBatch:
    """A v2 batch: its header's fields as stored, and its records; lengths and checksums do not count for equality."""

    base_offset: int
    batch_length: int = field(default=0, compare=False)
    partition_leader_epoch: int
    magic: int = 2
    crc: int = field(default=0, compare=False)
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    records: tuple[OracleRecord, ...]

    @property
    def size_bytes(self) -> int:
        """The whole batch, offset and length fields included."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """The last offset that the batch occupies, whether or not a record has it."""
        return wrap64(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last offset, or -1."""
        return NONE_ID if self.base_sequence == NONE_ID else _incremented(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The codec's number."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True if every record's timestamp is maxTimestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the records are control records."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers may go: the base timestamp, once the cleaner has set the bit for it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def batch_of(
    records: Sequence[OracleRecord],
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int = 0,
    attributes: int = 0,
    base_timestamp: int | None = None,
    producer_id: int = NONE_ID,
    producer_epoch: int = NONE_ID,
    base_sequence: int = NONE_ID,
) -> OracleBatch:
    """Return the batch that a broker would make of the records: what is not given follows from them.

    The records get the sequences and, under LogAppendTime, the one timestamp that they will be read with.
    `dataclasses.replace` makes of it what no broker would.
    """
    if base_offset is None:
        base_offset = records[0].offset
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    read_back = tuple(
        replace(
            record,
            timestamp=max_timestamp if attributes & LOG_APPEND_TIME else record.timestamp,
            sequence=_sequence(base_sequence, record.offset - base_offset),
        )
        for record in records
    )
    return OracleBatch(
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=records[-1].offset - base_offset if records else 0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
        records=read_back,
    )


def encode_batch(batch: OracleBatch) -> bytes:
    """Return the batch's bytes, its records compressed with the codec that its attributes name."""
    return seal_batch(batch, compress(batch.codec, encode_records(batch)))


def encode_records(batch: OracleBatch) -> bytes:
    """Return the encoded records before compression."""
    return b"".join(_encode_record(record, batch) for record in batch.records)


def seal_batch(batch: OracleBatch, records_data: bytes) -> bytes:
    """Return the batch with these bytes for its (compressed) records, valid or not."""
    header = BATCH_HEADER.pack(
        batch.base_offset,
        BATCH_HEADER.size - LOG_OVERHEAD_BYTES + len(records_data),
        batch.partition_leader_epoch,
        batch.magic,
        0,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    covered = header[CRC_COVERS_FROM:] + records_data
    return header[:CRC_POSITION] + struct.pack(">I", crc32c(covered)) + covered


def decode_v2(data: bytes) -> OracleBatch:
    """Return the batch that the data is, all of it."""
    if len(data) < BATCH_HEADER.size:
        raise FramingError(f"{len(data)} bytes are no v2 batch, whose header alone takes {BATCH_HEADER.size}")
    header = BATCH_HEADER.unpack_from(data)
    batch = OracleBatch(**dict(zip(HEADER_FIELDS, header, strict=True)), records=())
    if crc32c(data[CRC_COVERS_FROM:]) != batch.crc:
        raise ChecksumError(f"the batch does not have the checksum {batch.crc} that it carries")
    if batch.record_count < 0:
        raise MalformedRecordsError(f"the batch declares {batch.record_count} records")
    if batch.record_count == 0:
        # As on the JVM: of a batch without records, what follows the header is never looked at.
        return batch
    records_data = decompress(batch.codec, data[BATCH_HEADER.size :])
    return replace(batch, records=_decode_records(records_data, batch))


def _decode_records(records_data: bytes, batch: OracleBatch) -> tuple[OracleRecord, ...]:
    records = []
    position = 0
    for _ in range(batch.record_count):
        length, start = read_varint32(records_data, position)
        position = start + length
        if length < 0 or position > len(records_data):
            raise MalformedRecordsError(f"a record of {length} bytes does not fit its batch")
        records.append(_decode_record(records_data[start:position], batch))
    if position < len(records_data):
        raise MalformedRecordsError(f"{len(records_data) - position} bytes follow the last record of the batch")
    return tuple(records)


def _decode_record(body: bytes, batch: OracleBatch) -> OracleRecord:
    position = 1  # the attributes byte means nothing yet
    timestamp_delta, position = read_varint64(body, position)
    offset_delta, position = read_varint32(body, position)
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    header_count, position = read_varint32(body, position)
    if not 0 <= header_count <= len(body) - position:
        raise MalformedRecordsError(f"a record declares {header_count} headers")
    headers = []
    for _ in range(header_count):
        header_key, position = _read_bytes(body, position)
        if header_key is None:
            raise MalformedRecordsError("a header has no key")
        header_value, position = _read_bytes(body, position)
        # Bytes that are not UTF-8 become lone surrogates, so that nothing is lost.
        headers.append((header_key.decode("utf-8", "surrogateescape"), header_value))
    if position != len(body):
        raise MalformedRecordsError(f"{len(body) - position} bytes of a record are left over")
    timestamp = wrap64(batch.base_timestamp + timestamp_delta)
    return OracleRecord(
        offset=wrap64(batch.base_offset + offset_delta),
        timestamp=batch.max_timestamp if batch.is_log_append_time else timestamp,
        key=key,
        value=value,
        headers=tuple(headers),
        sequence=_sequence(batch.base_sequence, offset_delta),
    )


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = read_varint32(body, position)
    if length < 0:
        return None, start
    end = start + length
    if end > len(body):
        raise MalformedRecordsError(f"a field of {length} bytes does not fit its record")
    return body[start:end], end


def _encode_record(record: OracleRecord, batch: OracleBatch) -> bytes:
    parts = [
        b"\x00",
        write_varint(wrap64(record.timestamp - batch.base_timestamp)),
        write_varint(wrap32(record.offset - batch.base_offset)),
        _sized(record.key),
        _sized(record.value),
        write_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += [_sized(key.encode("utf-8", "surrogateescape")), _sized(value)]
    return _sized(b"".join(parts))


def _sized(data: bytes | None) -> bytes:
    return write_varint(-1) if data is None else write_varint(len(data)) + data


def _sequence(base_sequence: int, offset_delta: int) -> int:
    return _incremented(base_sequence, offset_delta) if base_sequence >= 0 else NONE_ID


def _incremented(sequence: int, increment: int) -> int:
    # Java's sum, in its 32 bits: meant to go on at 0 after 2^31-1, it makes odd numbers of increments below 0.
    if sequence > wrap32(LAST_SEQUENCE - increment):
        return wrap32(increment - (LAST_SEQUENCE - sequence) - 1)
    return wrap32(sequence + increment)
