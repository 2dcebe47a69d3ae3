"""The map of a log's dirty part: the last offset of each of its keys, as far as memory goes.

Control records, aborted records and records without a key are not in it. Only sound batches count, because the map
decides which records are removed for good.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.cleanup.cleaned_transactions import CleanedTransactions
from storage.errors import CompactionError, CorruptBatchError, MalformedRecordsError
from storage.record.batch import RecordBatch
from storage.record.kernel.offset_map import OffsetMap
from storage.segment.names import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.cleanup.pace import Pace
    from storage.log.view import LogView
    from storage.record.reading import Batch


_SEED_BYTES = 16


def empty_map(memory_bytes: int, load_factor: float) -> OffsetMap:
    """Return a map with this much memory. No producer can foresee its fingerprints. It holds a key at least."""
    try:
        offsets = OffsetMap(memory_bytes, load_factor, os.urandom(_SEED_BYTES))
    except MemoryError:
        raise CompactionError(f"there is no memory for a map of {memory_bytes} bytes") from None
    if offsets.keys_max < 1:
        raise CompactionError(f"a map of {memory_bytes} bytes that may be filled to {load_factor} has room for no key")
    return offsets


def fill_map(offsets: OffsetMap, view: LogView, start_offset: int, end_offset: int, pace: Pace) -> None:
    """Map the log from an offset up to another, at which a segment begins, or as much of it as there is room for. The
    map knows nothing after its latest offset.
    """
    transactions = CleanedTransactions(view.aborted(start_offset, end_offset))
    for part in view.slices(start_offset):
        segment = part.segment
        if segment.base_offset >= end_offset:
            break
        read = pace.passing(segment.batches_near(start_offset, None, window_bytes=pace.buffer_bytes))
        try:
            for batch in sound_batches(read, segment.base_offset, part.end_offset):
                if not _take(offsets, batch, start_offset, transactions):
                    return
        except CorruptBatchError as error:
            raise error.located(path=segment.path(Kind.LOG)) from None
        # Where offsets are missing at the segment's end, they are known to be.
        offsets.advance(min(part.end_offset, end_offset) - 1)


def _take(offsets: OffsetMap, batch: Batch, start_offset: int, transactions: CleanedTransactions) -> bool:
    """True if there was room for all of the batch."""
    if isinstance(batch, RecordBatch):
        if not transactions.fate(batch).is_needed or batch.is_control:
            if batch.last_offset >= start_offset:
                offsets.advance(batch.last_offset)
            return True
        records_data = batch.records_data() if batch.codec and batch.count else None
        return offsets.fill(batch, records_data, start_offset)
    for record in batch.records():
        if record.offset > batch.last_offset:
            raise MalformedRecordsError(
                "a record in the wrapper has a higher offset than it",
                position=batch.position,
                offset=record.offset,
            )
        if record.offset >= start_offset and record.key is not None and not offsets.add(record.key, record.offset):
            return False
    if batch.last_offset >= start_offset:
        offsets.advance(batch.last_offset)
    return True


def sound_batches(batches: Iterable[Batch], base_offset: int, end_offset: int) -> Iterator[Batch]:
    """Yield the same batches of a segment that begins and ends at these offsets, checked.

    Raises `CorruptBatchError` at the first that does not have its checksum or, as that does not cover offsets, does not
    lie above the one before and within the segment.
    """
    last_offset = base_offset - 1
    for batch in batches:
        batch.check_crc()
        if not last_offset < batch.base_offset <= batch.last_offset < end_offset:
            raise CorruptBatchError(
                f"the batch ends at {batch.last_offset}, and has to lie above {last_offset} and below {end_offset}",
                position=batch.position,
                offset=batch.base_offset,
            )
        last_offset = batch.last_offset
        yield batch
