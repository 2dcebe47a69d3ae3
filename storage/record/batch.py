"""Version 2 record batches: a frozen view of one batch's bytes.

A `RecordBatch` promises only its frame until asked for more: `check_crc` for its checksum, `records` for its
contents. Making new batches is left to `encoding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import ChecksumError, FramingError, StorageError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec, codec_of
from storage.record.kernel.decode import RecordIterator, RecordSequence
from storage.record.kernel.walk import BatchFrame
from storage.record.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from storage.record.leased import (
    PLACE_BYTES,
    RECORD_BYTES,
    UNLEASED_BYTES_MAX,
    decompress_leased,
    with_objects,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class RecordBatch(BatchFrame):
    """One v2 batch: the header's fields, what follows from them, and the way to its records."""

    __slots__ = ()

    @property
    def codec(self) -> Codec:
        """The codec of the records."""
        try:
            return codec_of(self.attributes)
        except FramingError as error:
            raise error.located(position=self.position, offset=self.base_offset) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME if producers set the timestamps, LOG_APPEND_TIME if the broker did at the append."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def first_timestamp(self) -> int | None:
        """The first record's timestamp, if the header says it: after a cleaner set a delete horizon, it does not."""
        if self.attributes & LOG_APPEND_TIME_BIT:
            return self.max_timestamp
        return None if self.attributes & DELETE_HORIZON_BIT else self.base_timestamp

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction; markers do."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the records are control records, which consumers never return."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which a cleaner may drop the batch's tombstones and markers; None until it has set one."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def starts_at_or_after(self, offset: int) -> bool:
        """Return True if the header alone shows that every record is at the offset or after it."""
        return self.base_offset >= offset

    def read_first_offset(self) -> int:
        """Return the base offset: the first record's, whether or not a cleaner has removed that record."""
        return self.base_offset

    def check_crc(self) -> None:
        """Raise `ChecksumError` unless the bytes have the checksum that the header carries."""
        actual = self.checksum()
        if actual != self.crc:
            raise ChecksumError(
                f"the batch's bytes have CRC {actual:08x}, its header says {self.crc:08x}",
                position=self.position,
                offset=self.base_offset,
            )

    def records_data(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> Buffer:
        """Return the records as an uncompressed batch stores them.

        Never produces more than `limit_bytes`, nor more than a share of the memory budget, from which it leases much.
        """
        stored = self.view(BATCH_HEADER_BYTES, self.size_bytes)
        try:
            codec = codec_of(self.attributes)
            return decompress_leased(codec, stored, limit_bytes=limit_bytes) if codec else stored
        except StorageError as error:
            raise error.located(position=self.position, offset=self.base_offset) from None

    def records(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> RecordIterator:
        """Iterate over the records. Decompresses at once, and parses each record when its turn comes.

        Callers may keep the records: there is room for them in the memory budget.
        """
        return RecordIterator(self, self._data_with_objects(RECORD_BYTES, limit_bytes))

    def record_sequence(
        self, *, all_are_read: bool = False, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    ) -> RecordSequence:
        """Return the records by their index. Decompresses and checks at once, and makes each record when it is used.

        If `all_are_read`, a batch of so many that making them takes long is refused as `records` refuses it.
        """
        bytes_each = RECORD_BYTES if all_are_read else PLACE_BYTES
        return RecordSequence(self, self._data_with_objects(bytes_each, limit_bytes))

    def _data_with_objects(self, bytes_each: int, limit_bytes: int) -> Buffer | None:
        """Return the decompressed records with a lease if they are many; None for few that are in the batch."""
        is_few = self.count * bytes_each <= UNLEASED_BYTES_MAX
        if is_few and (not self.attributes & CODEC_MASK or self.count == 0):
            return None
        records_data = self.records_data(limit_bytes=limit_bytes)
        try:
            return records_data if is_few else with_objects(records_data, self.count, bytes_each=bytes_each)
        except StorageError as error:
            raise error.located(position=self.position, offset=self.base_offset) from None

    def checked_records(self, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> RecordIterator:
        """Iterate over the records, as `records` does: they have no checksums of their own."""
        return self.records(limit_bytes=limit_bytes)
