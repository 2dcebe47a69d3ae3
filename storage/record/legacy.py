"""Reading message sets of version 0 and 1: an entry is a record, or a wrapper whose value holds compressed entries.

Each outer entry is a `LegacyBatch`, as in Kafka, and gives the same `Record` values as a v2 batch does. Writing message
sets is left to `legacy_encoding`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.budget import MEMORY
from storage.errors import ChecksumError, CorruptBatchError, FramingError, MalformedRecordsError, StorageError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec, codec_of
from storage.record.kernel.decode import Record, entry_record
from storage.record.kernel.walk import BatchFrame, EntryFrame, Walk, count_frames
from storage.record.layout import (
    CODEC_MASK,
    ENTRY_CRC_COVERS_FROM,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TimestampType,
)
from storage.record.leased import RECORD_BYTES, decompress_leased, with_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

_ENTRY_BYTES: Final = 4 * RECORD_BYTES
"""What the objects of an entry take: frames, a record and its entry, one after another, and each takes time too."""


class LegacyEntry(NamedTuple):
    """A record with the checksum that its own entry carries, and that entry's version."""

    record: Record
    crc: int
    crc_matches: bool
    magic: int


class LegacyBatch(EntryFrame):
    """One outer entry of a message set: a single record, or a compressed wrapper of several.

    It answers what a `RecordBatch` answers. As in Kafka, it has no producer, no transaction and no leader epoch.
    """

    __slots__ = ()

    leader_epoch: Final = NO_LEADER_EPOCH
    producer_id: Final = NO_PRODUCER_ID
    producer_epoch: Final = NO_PRODUCER_EPOCH
    base_sequence: Final = NO_SEQUENCE
    last_sequence: Final = NO_SEQUENCE
    is_transactional: Final = False
    is_control: Final = False
    delete_horizon_ms: Final = None

    @property
    def codec(self) -> Codec:
        """The codec of the wrapper's entries; NONE means that the entry is itself a record."""
        try:
            return codec_of(self.attributes)
        except FramingError as error:
            raise error.located(position=self.position, offset=self.offset) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; NONE in v0, whose records have no timestamps."""
        if self.magic == 0:
            return TimestampType.NONE
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def count(self) -> int | None:
        """The number of records; None for a wrapper, whose header does not say."""
        return None if self.attributes & CODEC_MASK else 1

    @property
    def last_offset(self) -> int:
        """The offset of the last record, the only one in the header."""
        return self.offset

    @property
    def base_offset(self) -> int:
        """The header's offset: of a wrapper this is the last one, see `read_first_offset`."""
        return self.offset

    def starts_at_or_after(self, offset: int) -> bool:
        """Return True if the header alone shows that every record is at the offset or after it."""
        return self.offset >= offset and not self.attributes & CODEC_MASK

    def read_first_offset(self) -> int:
        """Return the first record's offset, for which a wrapper is decompressed; of a damaged one the last offset."""
        try:
            return self.offset if self.count else next(self.records()).offset
        except CorruptBatchError:
            return self.offset

    @property
    def base_timestamp(self) -> int:
        """The header's timestamp, which is the largest one."""
        return self.timestamp

    @property
    def first_timestamp(self) -> int:
        """The header's timestamp, as `base_timestamp` is."""
        return self.timestamp

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, or the append time of all records, or -1."""
        return self.timestamp

    def checksum(self) -> int:
        """The CRC-32 of what the entry's `crc` covers, computed now."""
        return zlib.crc32(self.view(ENTRY_CRC_COVERS_FROM, self.size_bytes))

    @property
    def crc_matches(self) -> bool:
        """True if the bytes have the checksum that the entry carries."""
        return self.checksum() == self.crc

    def check_crc(self) -> None:
        """Raise `ChecksumError` unless the bytes have the checksum that the entry carries."""
        actual = self.checksum()
        if actual != self.crc:
            raise ChecksumError(
                f"the entry's bytes have CRC {actual:08x}, it says {self.crc:08x}",
                position=self.position,
                offset=self.offset,
            )

    def records(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> Iterator[Record]:
        """Iterate over the records, at their absolute offsets."""
        return (entry.record for entry in self.entries(limit_bytes=limit_bytes))

    def checked_records(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> Iterator[Record]:
        """Iterate over the records; raises `ChecksumError` at the first whose entry has a wrong checksum."""
        for entry in self.entries(limit_bytes=limit_bytes):
            if not entry.crc_matches:
                raise ChecksumError(
                    f"an entry within the wrapper does not have its CRC {entry.crc:08x}",
                    position=self.position,
                    offset=entry.record.offset,
                )
            yield entry.record

    def entries(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> Iterator[LegacyEntry]:
        """Iterate over the records, each with its entry's checksum.

        A wrapper is decompressed and framed to its end before it gives its first record, because v1 offsets count back
        from the last one.
        """
        try:
            if self.codec is Codec.NONE:
                record = entry_record(self, 0, self.timestamp, self.timestamp_type)
                yield LegacyEntry(record, self.crc, self.crc_matches, self.magic)
            else:
                yield from self._unwrapped(limit_bytes)
        except StorageError as error:
            error.position = self.position
            raise error.located(offset=self.offset) from None

    def _unwrapped(self, limit_bytes: int) -> Iterator[LegacyEntry]:
        records_data = self._records_data(limit_bytes)
        count = count_frames(records_data, MEMORY.share_bytes // _ENTRY_BYTES)
        records_data = with_objects(records_data, count, bytes_each=_ENTRY_BYTES)
        last_inner = -1
        for entry in _inner_entries(records_data):
            last_inner = entry.offset
        base = self._base_offset(last_inner)
        appended = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        for entry in _inner_entries(records_data):
            # Old cleaners left v0 entries in v1 wrappers: such an entry has no time, even if the wrapper has one.
            timeless = entry.magic == 0
            record = entry_record(
                entry,
                base,
                self.timestamp if appended and not timeless else entry.timestamp,
                TimestampType.NONE if timeless else self.timestamp_type,
            )
            yield LegacyEntry(record, entry.crc, entry.crc_matches, entry.magic)

    def _records_data(self, limit_bytes: int) -> Buffer:
        value = entry_record(self, 0, self.timestamp, self.timestamp_type).value
        if value is None:
            raise MalformedRecordsError("the compressed wrapper has a null value")
        return decompress_leased(self.codec, value, limit_bytes=limit_bytes, magic=self.magic)

    def _base_offset(self, last_inner: int) -> int:
        """Return the offset that the inner offsets count from: they are absolute in v0, relative in v1."""
        if self.magic == 0 or self.offset == 0:
            return 0  # a v1 wrapper at 0 comes from an old librdkafka and has absolute inner offsets
        if self.offset < last_inner:
            raise MalformedRecordsError(f"the wrapper's offset is below its last inner offset, {last_inner}")
        # A sum of offsets that no broker wrote wraps around, as it does on the JVM.
        return (self.offset - last_inner + 2**63) % 2**64 - 2**63


def _inner_entries(records_data: Buffer) -> Iterator[LegacyBatch]:
    walk = Walk(records_data, BatchFrame, LegacyBatch)
    empty = True
    try:
        for entry in walk:
            if not isinstance(entry, LegacyBatch):
                raise MalformedRecordsError("the compressed wrapper holds a v2 batch")
            if entry.codec is not Codec.NONE:
                raise MalformedRecordsError("the compressed wrapper holds another compressed entry")
            empty = False
            yield entry
    except FramingError as error:
        raise MalformedRecordsError(f"within the compressed wrapper {error.reason}") from None
    if walk.missing_bytes:
        raise MalformedRecordsError("the compressed wrapper ends within an entry")
    if empty:
        raise MalformedRecordsError("the compressed wrapper holds no entries")
