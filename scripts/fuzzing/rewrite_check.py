"""What must hold for batches made from batches: nothing changes but what was to be changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from storage.record import Codec, assign_offset, recompressed, retaining
from storage.testing.codec import OracleBatch, OracleRecord, decode_batch
from storage.testing.integers import wrap64

if TYPE_CHECKING:
    from storage.record import RecordBatch

BASE_OFFSET = 12345
LEADER_EPOCH = 7


def check_rewriting(batch: RecordBatch, original: OracleBatch) -> None:
    """Raise `Finding` unless each way of rewriting does what it says. `InvalidRecordError` means that it declined."""
    codec = Codec((batch.codec + 1) % len(Codec))
    _compare(
        "recompressing changes more than the codec",
        decode_batch(recompressed(batch, codec)),
        replace(original, attributes=batch.attributes - batch.codec + codec),
    )
    kept = decode_batch(retaining(batch, list(batch.records())[::2]))
    _compare("other records are retained than given", kept.records, original.records[::2])
    _compare("retaining moves the end of the batch", kept.last_offset, original.last_offset)
    target = bytearray(batch.view(0, batch.size_bytes))
    assign_offset(target, base_offset=BASE_OFFSET, leader_epoch=LEADER_EPOCH)
    placed = decode_batch(bytes(target))
    _compare(
        "placing does more than that", _from(BASE_OFFSET, placed.records), _from(original.base_offset, original.records)
    )


def _from(base_offset: int, records: tuple[OracleRecord, ...]) -> list[OracleRecord]:
    """The records, their offsets counted from the base."""
    return [replace(record, offset=wrap64(record.offset - base_offset)) for record in records]


def _compare(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise Finding(what, f"{seen}, not {expected}")
