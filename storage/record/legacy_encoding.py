"""Writing message sets of version 0 and 1, for cleaners that rewrite old segments in their own format.

New records are never written in these formats. Offsets and timestamps are kept as given.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from storage.errors import InvalidRecordError
from storage.record.compression import Codec, compress
from storage.record.layout import (
    ENTRY_CRC_COVERS_FROM,
    ENTRY_V0,
    ENTRY_V1,
    LARGEST_OFFSET_DELTA,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlacedRecord(Protocol):
    """A record that has its offset and its time."""

    @property
    def offset(self) -> int:
        """Its absolute offset."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch, or -1."""

    @property
    def key(self) -> bytes | None:
        """The key, or None."""

    @property
    def value(self) -> bytes | None:
        """The value, or None."""


def encode_entries(
    records: Sequence[PlacedRecord], magic: int, *, timestamp_type: TimestampType = TimestampType.CREATE_TIME
) -> bytes:
    """Encode the records as uncompressed entries."""
    attributes = _attributes(magic, Codec.NONE, timestamp_type)
    return b"".join(_entry(magic, attributes, r.offset, r.timestamp, r.key, r.value) for r in records)


def encode_wrapper(
    records: Sequence[PlacedRecord],
    magic: int,
    codec: Codec,
    *,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Encode the records, at least one and in the order of their offsets, as one compressed wrapper.

    With append time the wrapper carries the largest timestamp for all of them.
    """
    if not records:
        raise InvalidRecordError("a compressed wrapper needs a record")
    if codec in (Codec.NONE, Codec.ZSTD):
        raise InvalidRecordError(f"a v{magic} wrapper cannot be compressed with {codec.label}")
    base = records[0].offset if magic == 1 else 0
    last = records[-1].offset
    if not 0 <= last - base <= LARGEST_OFFSET_DELTA and magic == 1:
        raise InvalidRecordError(f"offsets {base} and {last} do not fit one wrapper", offset=base)
    inner_attributes = _attributes(magic, Codec.NONE, timestamp_type)
    records_data = b"".join(
        _entry(magic, inner_attributes, record.offset - base, record.timestamp, record.key, record.value)
        for record in records
    )
    value = compress(codec, records_data, level=level, magic=magic)
    timestamp = max(record.timestamp for record in records)
    return _entry(magic, _attributes(magic, codec, timestamp_type), last, timestamp, None, value)


def _attributes(magic: int, codec: Codec, timestamp_type: TimestampType) -> int:
    if magic not in (0, 1):
        raise InvalidRecordError(f"magic {magic} is not that of a message set")
    appended = magic == 1 and timestamp_type is TimestampType.LOG_APPEND_TIME
    return codec | (LOG_APPEND_TIME_BIT if appended else 0)


def _entry(magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    key_size = -1 if key is None else len(key)
    value_part = b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
    body_bytes = max(key_size, 0) + len(value_part)
    if magic == 0:
        size = ENTRY_V0.size + body_bytes - LOG_OVERHEAD_BYTES
        head = ENTRY_V0.pack(offset, size, 0, magic, attributes, key_size)
    else:
        size = ENTRY_V1.size + body_bytes - LOG_OVERHEAD_BYTES
        head = ENTRY_V1.pack(offset, size, 0, magic, attributes, timestamp, key_size)
    rest = b"".join((head[ENTRY_CRC_COVERS_FROM:], key or b"", value_part))
    return b"".join((head[:LOG_OVERHEAD_BYTES], zlib.crc32(rest).to_bytes(4, "big"), rest))
