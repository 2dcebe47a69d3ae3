"""The member `batch` of one record's indented envelope, which describes the record's batch.

The fields are called as kafka-dump-log calls them, as far as their names are the envelope's kind of name, and have the
values that it prints: -1 means none, also for what message sets of versions 0 and 1 cannot say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.record import Batch, Record

BATCH_FIELD: Final = "batch"
"""The name of the member, which `append.jsonl` ignores."""


def batch_member(record: Record, batch: Batch, *, segment: str, transaction: str | None) -> dict[str, object]:
    """The fields of a sound batch, of the record in it, and of where it is.

    `segment` is the name of the file that the batch is in; `transaction` says how the transaction ended that the batch
    belongs to, None if it belongs to none.
    """
    count = sum(1 for _ in batch.records()) if batch.count is None else batch.count  # a wrapper's header has none
    return {
        "baseOffset": batch.read_first_offset(),
        "lastOffset": batch.last_offset,
        "count": count,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "sequence": record.sequence,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "transaction": transaction,
        "timestampType": batch.timestamp_type.label,
        "maxTimestamp": batch.max_timestamp,
        "magic": batch.magic,
        "codec": batch.codec.label,
        "crc": batch.crc,
        "segment": segment,
        "position": batch.position,
        "size": batch.size_bytes,
    }
