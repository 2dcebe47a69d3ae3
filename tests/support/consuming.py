"""A consumer's records of a log, in either isolation level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.log.view import DEFAULT_READ_BYTES
from storage.record.batch import RecordBatch
from storage.record.layout import NO_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.log.log import Log
    from storage.log.view import Isolation
    from storage.record.kernel.decode import Record
    from storage.record.reading import Batch


class ConsumedRecord(NamedTuple):
    """A record, and what is said of it."""

    offset: int
    timestamp: int
    timestamp_type: str  # its label
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None


def consumed(log: Log, isolation: Isolation, *, max_bytes: int = DEFAULT_READ_BYTES) -> Iterator[ConsumedRecord]:
    """The records from the log's start up to where the isolation level lets a consumer come, fetch by fetch."""
    offset = log.view.start_offset
    while True:
        fetched = log.read(offset, max_bytes=max_bytes, isolation=isolation)
        if fetched.next_offset == offset:
            return
        for batch in fetched.batches:
            if not batch.is_control:
                yield from (_consumed(batch, record) for record in batch.records() if record.offset >= offset)
        offset = fetched.next_offset


def _consumed(batch: Batch, record: Record) -> ConsumedRecord:
    epoch = batch.leader_epoch if isinstance(batch, RecordBatch) else NO_LEADER_EPOCH
    return ConsumedRecord(
        record.offset,
        record.timestamp,
        batch.timestamp_type.label,
        record.key,
        record.value,
        record.headers,
        None if epoch == NO_LEADER_EPOCH else epoch,
    )
