"""What the indented envelope of one record says of the batch that holds the record.

The fields are called as kafka-dump-log calls them, as far as their names are the envelope's kind of name, and have the
values that it prints: -1 stands for none, also for what message sets of versions 0 and 1 cannot say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.record.batch import RecordBatch
from storage.record.layout import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from storage.record.kernel.decode import Record
    from storage.record.legacy import LegacyBatch
    from storage.record.reading import Batch

BATCH_FIELD: Final = "batch"
"""What the member is called; `append.jsonl` passes it over."""


def batch_member(record: Record, batch: Batch, *, segment: str, transaction: str | None) -> dict[str, object]:
    """The fields of a sound batch, of the record in it, and of where it is.

    `segment` is the name of the file that the batch is in; `transaction` says how the transaction ended that the batch
    belongs to, None if it belongs to none.
    """
    own = _of_record_batch(record, batch) if isinstance(batch, RecordBatch) else _of_message_set(batch)
    return {
        **own,
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


def _of_record_batch(record: Record, batch: RecordBatch) -> dict[str, object]:
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.count,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "sequence": record.sequence,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
    }


def _of_message_set(batch: LegacyBatch) -> dict[str, object]:
    """The outer entry does not say where it begins and how many records it has, so they are counted."""
    offsets = [record.offset for record in batch.records()]
    return {
        "baseOffset": offsets[0],
        "lastOffset": batch.last_offset,
        "count": len(offsets),
        "producerId": NO_PRODUCER_ID,
        "producerEpoch": NO_PRODUCER_EPOCH,
        "baseSequence": NO_SEQUENCE,
        "lastSequence": NO_SEQUENCE,
        "sequence": NO_SEQUENCE,
        "partitionLeaderEpoch": NO_LEADER_EPOCH,
        "isTransactional": False,
        "isControl": False,
        "deleteHorizonMs": None,
    }
