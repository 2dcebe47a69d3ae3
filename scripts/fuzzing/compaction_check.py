"""What must hold for compacting a batch by itself: of each key the last record stays, if it has a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from storage.record import retaining
from storage.record.kernel.offset_map import SLOT_BYTES, OffsetMap
from storage.record.kernel.retained import select_retained_records
from storage.testing.codec import decode_batch

if TYPE_CHECKING:
    from storage.record import RecordBatch
    from storage.testing.codec import OracleBatch

SEED = bytes(range(16))


def check_compaction(batch: RecordBatch, original: OracleBatch) -> None:
    """Raise `Finding` unless the right records are kept. `CorruptBatchError` means that offsets lie outside."""
    records_data = batch.records_data() if batch.codec and batch.count else None
    offsets = OffsetMap((len(original.records) + 2) * SLOT_BYTES, 1.0, SEED)
    offsets.fill(batch, records_data, 0)
    last = {record.key: record.offset for record in original.records}
    expected = tuple(
        record
        for record in original.records
        if record.key is not None and record.offset >= last[record.key] and record.value is not None
    )
    found = select_retained_records(batch, records_data, offsets, keep_tombstones=False)
    kept = decode_batch(retaining(batch, found)).records
    if kept != expected or found.kept != len(expected):
        raise Finding("compaction keeps other records than it should", f"{kept}, not {expected}")
