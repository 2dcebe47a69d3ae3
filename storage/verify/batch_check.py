"""One batch checked: its checksum, and all of its records.

The checks of its log say if it is in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.errors import MalformedRecordsError, StorageError
from storage.record.batch import RecordBatch
from storage.record.control import decode_control
from storage.record.kernel.decode import RecordIterator
from storage.record.kernel.summary import summarize_records
from storage.record.layout import CODEC_MASK

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.record.legacy import LegacyBatch
    from storage.record.reading import Batch


class CheckedBatch(NamedTuple):
    """A sound batch and its first offset. `is_gapless` if it has a record for every offset from there to its last."""

    batch: Batch
    first_offset: int
    is_gapless: bool


def check_batch(batch: Batch) -> CheckedBatch:
    """Check a batch; raises a `CorruptBatchError` at the first flaw."""
    batch.check_crc()
    if isinstance(batch, RecordBatch):
        return CheckedBatch(batch, batch.base_offset, _check_records(batch))
    return _check_entries(batch)


def _check_records(batch: RecordBatch) -> bool:
    """Return True if the batch has every record that it was written with."""
    count, last_delta = batch.count, batch.last_offset_delta
    if not 0 <= count <= last_delta + 1:
        raise MalformedRecordsError(
            f"the batch declares {count} records and a last offset delta of {last_delta}",
            position=batch.position,
            offset=batch.base_offset,
        )
    if count == 0:
        return False
    records_data = batch.records_data() if batch.attributes & CODEC_MASK else None
    is_consecutive = summarize_records(batch, records_data).is_consecutive
    if not is_consecutive:
        _check_deltas(batch, records_data)
    if batch.is_control:
        for record in RecordIterator(batch, records_data):
            try:
                decode_control(record.key, record.value)
            except StorageError as error:
                raise error.located(position=batch.position, offset=record.offset) from None
    return is_consecutive and count == last_delta + 1


def _check_deltas(batch: RecordBatch, records_data: Buffer | None) -> None:
    last_offset = batch.base_offset - 1
    for record in RecordIterator(batch, records_data):
        if not last_offset < record.offset <= batch.last_offset:
            raise MalformedRecordsError(
                f"a record has the offset {record.offset}, between {last_offset} and the batch's last, "
                f"{batch.last_offset}",
                position=batch.position,
                offset=record.offset,
            )
        last_offset = record.offset


def _check_entries(batch: LegacyBatch) -> CheckedBatch:
    first_offset: int | None = None
    last_offset, count = -1, 0
    for record in batch.checked_records():
        offset = record.offset
        if first_offset is None:
            first_offset = offset
        elif offset <= last_offset:
            raise MalformedRecordsError(
                f"an entry within the wrapper has the offset {offset}, after {last_offset}",
                position=batch.position,
                offset=offset,
            )
        last_offset = offset
        count += 1
    # The wrappers of an old client always say 0.
    if first_offset is None or (last_offset != batch.last_offset and batch.last_offset != 0):
        raise MalformedRecordsError(
            f"the wrapper has the offset {batch.last_offset}, and its last entry {last_offset}",
            position=batch.position,
            offset=batch.last_offset,
        )
    return CheckedBatch(batch, min(first_offset, batch.last_offset), last_offset - first_offset + 1 == count)
