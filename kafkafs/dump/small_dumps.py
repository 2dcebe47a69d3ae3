"""The dumps of small files: checkpoints, producer snapshots and transaction indexes.

The real tool has no dump of checkpoints, of an offset for each partition or each leader epoch. A line here is a line of
the file, with a partition's topic and number as its directory's name has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.entry_dump import Entry, EntryDump, SlotDump
from storage.checkpoint_text import integer, parse_checkpoint, read_checkpoint_data
from storage.errors import CorruptCheckpointError, CorruptIndexError, CorruptSnapshotError, StorageError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.segment.index import TRANSACTION_ENTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from storage.files import Files, ReadableFile
    from storage.log import ProducerState

_TRANSACTION_FIELDS: Final = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
_TRANSACTION_VERSION: Final = 0


class CheckpointDump(EntryDump):
    """The dump of a checkpoint up to its first wrong line, if it has no more than `limit_bytes`."""

    def __init__(
        self,
        files: Files,
        file: ReadableFile,
        form: EntryForm,
        parse: Callable[[list[str]], Entry],
        *,
        limit_bytes: int,
    ) -> None:
        super().__init__(file, form)
        self._files = files
        self._parse = parse
        self._limit_bytes = limit_bytes

    def _parts(self) -> Iterator[Entry | StorageError]:
        size_bytes = self._file.size_bytes()
        if size_bytes > self._limit_bytes:
            yield CorruptCheckpointError(
                f"the checkpoint has {size_bytes} bytes, above the limit of {self._limit_bytes}"
            )
            return
        path = Path(self._file.path)
        try:
            data = read_checkpoint_data(self._files.directory(path.parent), path.name)
            yield from parse_checkpoint(data, self._file.path, self._parse)
        except CorruptCheckpointError as error:
            yield error


def partition_offset(columns: list[str]) -> Entry:
    """Parse a line of a log directory's checkpoints."""
    topic, partition, offset = columns
    fields = {"topic": topic, "partition": integer(partition, bits=32), "offset": integer(offset, bits=64)}
    return Entry("partitionOffset", fields, f"{topic}-{fields['partition']} {fields['offset']}")


def epoch_start(columns: list[str]) -> Entry:
    """Parse a line of a partition's leader epochs."""
    epoch, offset = columns
    fields = {"epoch": integer(epoch, bits=32), "startOffset": integer(offset, bits=64)}
    return Entry("leaderEpoch", fields, f"{fields['epoch']} {fields['startOffset']}")


class ProducerSnapshotDump(EntryDump):
    """The dump of a producer snapshot. An incomplete one, or one above `limit_bytes`, has no entries."""

    def __init__(self, file: ReadableFile, form: EntryForm, *, limit_bytes: int) -> None:
        super().__init__(file, form)
        self._limit_bytes = min(limit_bytes, SNAPSHOT_BYTES_MAX)

    def _parts(self) -> Iterator[Entry | StorageError]:
        from storage.log import snapshot_entries

        size_bytes = self._file.size_bytes()
        if size_bytes > self._limit_bytes:
            yield CorruptSnapshotError(f"the snapshot has {size_bytes} bytes, above the limit of {self._limit_bytes}")
            return
        try:
            yield from map(_producer, snapshot_entries(self._file.read_at(0, size_bytes)))
        except CorruptSnapshotError as error:
            yield error


def _producer(producer: ProducerState) -> Entry:
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


class TransactionIndexDump(SlotDump):
    """The dump of a transaction index: an aborted transaction a line."""

    slot = TRANSACTION_ENTRY

    def _parts(self) -> Iterator[Entry | StorageError]:
        for _, values in self._slots():
            yield self._part(values)

    def _part(self, values: tuple[int, ...]) -> Entry | StorageError:
        if values[0] != _TRANSACTION_VERSION:
            reason = f"the entry has version {values[0]}, and only {_TRANSACTION_VERSION} is known"
            return CorruptIndexError(reason, position=self.position)
        fields = dict(zip(_TRANSACTION_FIELDS, values, strict=True))
        return Entry("abortedTransaction", fields, " ".join(f"{name}: {value}" for name, value in fields.items()))
