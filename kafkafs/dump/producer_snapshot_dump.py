"""The dump of a producer snapshot (`.snapshot`): what the log knew of each producer, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkafs.dump.entry_dump import Entry, EntryDump
from storage.errors import CorruptSnapshotError, StorageError
from storage.log import decode_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from storage.files import ReadableFile
    from storage.log import ProducerState


class ProducerSnapshotDump(EntryDump):
    """One producer snapshot's dump. It shows no entries of an incomplete snapshot, or of one above `limit_bytes`."""

    def __init__(self, file: ReadableFile, form: EntryForm, *, limit_bytes: int) -> None:
        super().__init__(file, form)
        self._limit_bytes = limit_bytes

    def _parts(self) -> Iterator[Entry | StorageError]:
        size_bytes = self._file.size_bytes()
        if size_bytes > self._limit_bytes:
            yield CorruptSnapshotError(f"the snapshot has {size_bytes} bytes, above the limit of {self._limit_bytes}")
            return
        try:
            producers = decode_snapshot(self._file.read_at(0, size_bytes))
        except CorruptSnapshotError as error:
            yield error
            return
        yield from map(_entry, producers)


def _entry(producer: ProducerState) -> Entry:
    start = producer.transaction_offset
    fields: dict[str, Any] = {
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": start,
        "lastTimestamp": producer.last_timestamp,
    }
    text = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.epoch}"
        f" coordinatorEpoch: {producer.coordinator_epoch}"
        f" currentTxnFirstOffset: {'OptionalLong.empty' if start is None else f'OptionalLong[{start}]'}"
        f" lastTimestamp: {producer.last_timestamp} "
    )
    for batch in producer.batches:
        last_batch = {
            "firstSequence": batch.first_sequence,
            "lastSequence": batch.last_sequence,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": batch.timestamp,
        }
        fields |= last_batch
        text += " ".join(f"{name}: {value}" for name, value in last_batch.items())
    return Entry("producer", fields, text)
