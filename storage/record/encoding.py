"""New v2 batches: rows of records, or lines of text, packed into batches of bounded size.

A `BatchForm` says how batches are stamped. Offsets in a log, and whether a batch may be written at all, are left to the
log that takes it, which need not read an `EncodedBatch` again to know what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from storage.errors import RecordTooLargeError
from storage.record.compression import Codec, compress
from storage.record.control import EndTransactionMarker, encode_end_transaction
from storage.record.kernel.encode import encode_rows
from storage.record.kernel.lines import encode_lines
from storage.record.kernel.records_data import EncodedBatch, RecordsData, seal
from storage.record.layout import (
    CONTROL_BIT,
    LAST_SEQUENCE,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"
Row: TypeAlias = "tuple[int, Buffer | None, Buffer | None, Headers]"
"""A record to be written: timestamp in milliseconds, key, value, headers."""

DEFAULT_MAX_BATCH_BYTES = 1024 * 1024 + 12  # Kafka's default for max.message.bytes


@dataclass(frozen=True, slots=True)
class BatchForm:
    """The header fields of new batches, their codec and its level.

    `append_time_ms` replaces every record's own timestamp. With a producer's `base_sequence` each batch continues the
    sequence of the one before it.
    """

    codec: Codec = Codec.NONE
    level: int | None = None
    append_time_ms: int | None = None
    leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False

    @property
    def attributes(self) -> int:
        """The attribute bits of such a batch."""
        appended = LOG_APPEND_TIME_BIT if self.append_time_ms is not None else 0
        return self.codec | appended | (TRANSACTIONAL_BIT if self.transactional else 0)


DEFAULT_FORM = BatchForm()


def batches_of_rows(
    rows: Sequence[Row],
    *,
    base_offset: int | None = 0,
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    form: BatchForm = DEFAULT_FORM,
) -> Iterator[EncodedBatch]:
    """Pack the rows into batches of at most `max_bytes`, with offsets that rise by one from `base_offset`.

    Without a base each batch begins at 0, as a producer sends it. A record that does not fit a batch of its own raises
    `RecordTooLargeError` when its turn comes.
    """

    def records_data_from(start: int, largest_bytes: int) -> RecordsData:
        return encode_rows(rows, max_bytes=largest_bytes, start=start)

    return _batches(records_data_from, len(rows), base_offset, max_bytes, form)


def batches_of_lines(
    block: Buffer,
    *,
    timestamp_ms: int,
    base_offset: int | None = 0,
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    form: BatchForm = DEFAULT_FORM,
    begun: Buffer = b"",
) -> Iterator[EncodedBatch]:
    """Pack the lines of a block as `batches_of_rows` does rows: their keys are null, the last may lack its newline.

    The first line begins with the bytes `begun`, if the block is not empty.
    """

    def records_data_from(start: int, largest_bytes: int) -> RecordsData:
        return encode_lines(
            block,
            timestamp=timestamp_ms,
            max_bytes=largest_bytes,
            start=start,
            include_last=True,
            begun=b"" if start else begun,
        )

    return _batches(records_data_from, memoryview(block).nbytes, base_offset, max_bytes, form)


def marker_batch(
    marker: EndTransactionMarker,
    *,
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> EncodedBatch:
    """Make the control batch that ends a producer's transaction."""
    key, value = encode_end_transaction(marker)
    form = BatchForm(
        leader_epoch=leader_epoch, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
    )
    records_data = encode_rows([(timestamp_ms, key, value, ())], max_bytes=DEFAULT_MAX_BATCH_BYTES)
    return _sealed(records_data, offset, NO_SEQUENCE, form, control=True)


def quorum_batch(key: bytes, value: bytes, *, offset: int, timestamp_ms: int, leader_epoch: int) -> EncodedBatch:
    """Make a control batch with one record of a KRaft quorum, as the metadata log and its snapshots have them."""
    records_data = encode_rows([(timestamp_ms, key, value, ())], max_bytes=DEFAULT_MAX_BATCH_BYTES)
    return _sealed(records_data, offset, NO_SEQUENCE, BatchForm(leader_epoch=leader_epoch), control=True)


def _batches(
    records_data_from: Callable[[int, int], RecordsData],
    end: int,
    base_offset: int | None,
    max_bytes: int,
    form: BatchForm,
) -> Iterator[EncodedBatch]:
    """Encode batch after batch, up to the input's end."""
    start, offset, sequence = 0, base_offset or 0, form.base_sequence
    while start < end:
        largest_bytes = max_bytes
        while True:
            records_data = records_data_from(start, largest_bytes)
            batch = _sealed(records_data, offset, sequence, form)
            excess_bytes = len(batch) - max_bytes
            if excess_bytes <= 0:
                break
            if records_data.count == 1:
                raise RecordTooLargeError(
                    f"a record takes a batch of {len(batch)} bytes, and the largest allowed is {max_bytes}",
                    offset=offset,
                )
            # Compression made the data larger: take so much less of it that the rest fits.
            largest_bytes = max(min(largest_bytes, len(records_data)) - excess_bytes, 0)
        yield batch
        start = records_data.stop
        if base_offset is not None:
            offset += records_data.count
        if sequence != NO_SEQUENCE:
            sequence = (sequence + records_data.count) % (LAST_SEQUENCE + 1)


def _sealed(
    records_data: RecordsData, base_offset: int, base_sequence: int, form: BatchForm, *, control: bool = False
) -> EncodedBatch:
    data = seal(
        records_data if form.codec is Codec.NONE else compress(form.codec, records_data, level=form.level),
        base_offset=base_offset,
        leader_epoch=form.leader_epoch,
        attributes=form.attributes | (CONTROL_BIT if control else 0),
        last_offset_delta=records_data.count - 1,
        base_timestamp=records_data.base_timestamp,
        max_timestamp=records_data.max_timestamp if form.append_time_ms is None else form.append_time_ms,
        producer_id=form.producer_id,
        producer_epoch=form.producer_epoch,
        base_sequence=base_sequence,
        count=records_data.count,
    )
    return EncodedBatch(data, records_data)
