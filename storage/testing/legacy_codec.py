"""Message sets of magic 0 and 1: entries and compressed wrappers, decoded by the rules of the JVM.

Decoding one entry expects its bytes alone; `storage.testing.codec` finds where each entry begins and ends.
Encoding computes the size and the checksum and writes every other field as given, sense or nonsense.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from storage.errors import ChecksumError, DecompressionError, MalformedRecordsError
from storage.testing.batch_codec import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, OracleRecord
from storage.testing.compressed import NONE, ZSTD, compress, decompress
from storage.testing.integers import wrap64

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_HEADERS = {0: struct.Struct(">qiIbb"), 1: struct.Struct(">qiIbbq")}
ENTRY_SIZE_MIN = 14
MAGIC_POSITION = 16
CRC_POSITION = 12
CRC_COVERS_FROM = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleEntry:
    """An entry as stored, and the records in it: itself, or those in its value. Equality ignores size and crc."""

    offset: int
    size: int = field(default=0, compare=False)
    crc: int = field(default=0, compare=False)
    magic: int
    attributes: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    records: tuple[OracleRecord, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The whole entry, offset and size fields included."""
        return LOG_OVERHEAD_BYTES + self.size

    @property
    def base_offset(self) -> int:
        """The offset of the first record in it."""
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        """The entry's own offset, which is that of the last record in it (but 0 in wrappers that old clients sent)."""
        return self.offset

    @property
    def max_timestamp(self) -> int:
        """The entry's own timestamp, or -1."""
        return self.timestamp

    @property
    def codec(self) -> int:
        """The codec's number."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker has set the timestamp."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)


def entry_of(record: OracleRecord, magic: int, *, log_append_time: bool = False) -> OracleEntry:
    """Return the uncompressed entry that a broker would make of the record."""
    timestamp = record.timestamp if magic > 0 else NO_TIMESTAMP
    return OracleEntry(
        offset=record.offset,
        magic=magic,
        attributes=LOG_APPEND_TIME if log_append_time else 0,
        timestamp=timestamp,
        key=record.key,
        value=record.value,
        records=(replace(record, timestamp=timestamp),),
    )


def wrapper_of(
    records: Sequence[OracleRecord],
    magic: int,
    codec: int,
    *,
    inner_magic: int | None = None,
    log_append_time: bool = False,
) -> OracleEntry:
    """Return the wrapper that a broker would make of the records; old cleaners left another inner magic in it."""
    if inner_magic is None:
        inner_magic = magic
    timestamp = max(record.timestamp for record in records) if magic > 0 else NO_TIMESTAMP
    inner = [entry_of(record, inner_magic) for record in records]
    if magic > 0:
        inner = [replace(entry, offset=entry.offset - records[0].offset) for entry in inner]
    wrapper = OracleEntry(
        offset=records[-1].offset,
        magic=magic,
        attributes=codec | (LOG_APPEND_TIME if log_append_time else 0),
        timestamp=timestamp,
        value=compress(codec, b"".join(encode_entry(entry) for entry in inner), magic=magic),
    )
    return replace(
        wrapper,
        records=tuple(
            replace(record, timestamp=_timestamp_within(wrapper, entry))
            for record, entry in zip(records, inner, strict=True)
        ),
    )


def encode_entry(entry: OracleEntry) -> bytes:
    """Return the entry's bytes; its records have no part in them, its value has."""
    body = _sized(entry.key) + _sized(entry.value)
    header = ENTRY_HEADERS[entry.magic]
    size = header.size - LOG_OVERHEAD_BYTES + len(body)
    fields = (entry.offset, size, 0, entry.magic, entry.attributes, entry.timestamp)
    packed = header.pack(*fields[: 5 + entry.magic])
    covered = packed[CRC_COVERS_FROM:] + body
    return packed[:CRC_POSITION] + struct.pack(">I", zlib.crc32(covered)) + covered


def decode_entry(data: bytes) -> OracleEntry:
    """Return the entry that the data is, all of it, with the records in it."""
    entry = _decode_shallow(data)
    if entry.codec == NONE:
        return replace(entry, records=(_record(entry, entry.offset, entry.timestamp),))
    return replace(entry, records=_decode_inner(entry))


def _decode_shallow(data: bytes) -> OracleEntry:
    header = ENTRY_HEADERS[data[MAGIC_POSITION]]
    crc = int.from_bytes(data[CRC_POSITION:CRC_COVERS_FROM], "big")
    if zlib.crc32(data[CRC_COVERS_FROM:]) != crc:
        raise ChecksumError(f"the entry does not have the checksum {crc} that it carries")
    if len(data) < header.size:
        raise MalformedRecordsError(f"an entry of {len(data)} bytes ends within its fixed fields")
    offset, size, crc, magic, attributes, *timestamps = header.unpack_from(data)
    key, position = _read_sized(data, header.size)
    # As on the JVM: what may follow the value is never looked at.
    value, _ = _read_sized(data, position)
    return OracleEntry(
        offset=offset,
        size=size,
        crc=crc,
        magic=magic,
        attributes=attributes,
        timestamp=timestamps[0] if timestamps else NO_TIMESTAMP,
        key=key,
        value=value,
    )


def _decode_inner(wrapper: OracleEntry) -> tuple[OracleRecord, ...]:
    if wrapper.codec == ZSTD:
        raise DecompressionError(f"zstd came later than magic {wrapper.magic}")
    if wrapper.value is None:
        raise MalformedRecordsError("a compressed entry has no value")
    inner = _inner_entries(decompress(wrapper.codec, wrapper.value, magic=wrapper.magic))
    if not inner:
        raise MalformedRecordsError("a compressed entry has no entries in it")
    if any(entry.codec != NONE for entry in inner):
        raise MalformedRecordsError("a compressed entry has a compressed entry in it")
    base_offset = 0
    # Magic 1 counts from the first inner offset; a wrapper with offset 0 is what old clients sent.
    if wrapper.magic > 0 and wrapper.offset != 0:
        base_offset = wrapper.offset - inner[-1].offset
        if base_offset < 0:
            raise MalformedRecordsError(f"inner offsets run to {inner[-1].offset}, the entry's is {wrapper.offset}")
    return tuple(
        _record(entry, wrap64(base_offset + entry.offset), _timestamp_within(wrapper, entry)) for entry in inner
    )


def _inner_entries(records_data: bytes) -> list[OracleEntry]:
    entries = []
    position = 0
    # As on the JVM: an entry that is cut short ends the run without an error.
    while position + LOG_OVERHEAD_BYTES <= len(records_data):
        size = int.from_bytes(records_data[position + 8 : position + LOG_OVERHEAD_BYTES], "big", signed=True)
        if size < ENTRY_SIZE_MIN:
            raise MalformedRecordsError(f"an inner entry has {size} bytes")
        end = position + LOG_OVERHEAD_BYTES + size
        if end > len(records_data):
            break
        if records_data[position + MAGIC_POSITION] not in ENTRY_HEADERS:
            raise MalformedRecordsError(f"an inner entry has magic {records_data[position + MAGIC_POSITION]}")
        entries.append(_decode_shallow(records_data[position:end]))
        position = end
    return entries


def _timestamp_within(wrapper: OracleEntry, entry: OracleEntry) -> int:
    if entry.magic == 0:
        return NO_TIMESTAMP
    return wrapper.timestamp if wrapper.is_log_append_time else entry.timestamp


def _record(entry: OracleEntry, offset: int, timestamp: int) -> OracleRecord:
    return OracleRecord(offset=offset, timestamp=timestamp, key=entry.key, value=entry.value)


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    start = position + 4
    if start > len(data):
        raise MalformedRecordsError("an entry ends within a size")
    size = int.from_bytes(data[position:start], "big", signed=True)
    if size < 0:
        return None, start
    end = start + size
    if end > len(data):
        raise MalformedRecordsError(f"a field of {size} bytes does not fit its entry")
    return data[start:end], end


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
