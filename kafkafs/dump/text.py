"""A dump in the words of Kafka 3.9's `kafka-dump-log --deep-iteration --print-data-log`, byte for byte.

Its oddities are kept, such as the brace after a message set's checksum, because programs read this text. Where the real
tool dies, a line that begins with `Damaged: ` says why, and the dump goes on.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from kafkafs.dump.control_text import control_text
from kafkafs.dump.file_kinds import BOOTSTRAP_NAME, as_printed, log_start_offset, snapshot_end_and_epoch
from kafkafs.dump.jackson import jvm_encoded
from storage.errors import MalformedRecordsError, StorageError
from storage.record import Codec, lease_if_large, record_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from kafkafs.dump.decoded import RecordDecoder
    from kafkafs.dump.entry_dump import Entry
    from storage.internal import Release
    from storage.record import Batch, LeasedBuffer, LegacyBatch, LegacyEntry, Record, RecordBatch

    Line: TypeAlias = bytes | LeasedBuffer

_TRUTH: Final = ("false", "true")


class TextForm:
    """The real tool's lines; without data, as it prints them when not asked for the data log.

    With a decoder, a record's key and value are shown as it shows them. Control records are printed as the release's
    tool prints them.
    """

    def __init__(
        self, *, with_data: bool = True, decoder: RecordDecoder | None = None, release: Release = "3.9"
    ) -> None:
        self._with_data = with_data
        self._decoder = decoder
        self._release = release

    def heading(self, path: str) -> list[bytes]:
        """Name the file, and what its own name says."""
        lines = [_encoded(f"Dumping {as_printed(path)}")]
        start_offset = log_start_offset(path)
        snapshot = snapshot_end_and_epoch(path)
        if start_offset is not None:
            lines.append(b"Log starting offset: %d" % start_offset)
        elif snapshot is not None:
            lines.append(b"Snapshot end offset: %d, epoch: %d" % snapshot)
        elif PurePath(path).name == BOOTSTRAP_NAME:
            lines.append(b"KRaft bootstrap snapshot")
        return lines

    def batch(self, batch: RecordBatch, records: Iterable[Record], *, is_valid: bool) -> Iterator[Line]:
        """Yield a line for the batch, and one for each record."""
        horizon = (
            "OptionalLong.empty" if batch.delete_horizon_ms is None else f"OptionalLong[{batch.delete_horizon_ms}]"
        )
        yield from _batch_line(
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
            f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
            f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
            f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {_TRUTH[batch.is_transactional]}"
            f" isControl: {_TRUTH[batch.is_control]} deleteHorizonMs: {horizon}",
            batch,
            is_valid,
        )
        timestamp_type = batch.timestamp_type
        if batch.is_control:
            yield from _control_lines(records, timestamp_type, self._release)
            return
        with_data, decoder = self._with_data, self._decoder
        if decoder is None:
            for record in records:
                yield record_line(record, timestamp_type, None, with_data, lease_if_large)
            return
        text = decoder.text
        for record in records:
            yield record_line(record, timestamp_type, None, False) + jvm_encoded(text(record))

    def message_set(self, batch: LegacyBatch, entries: Iterable[LegacyEntry], *, is_valid: bool) -> Iterator[Line]:
        """Yield a line for the outer entry, and one for each record."""
        yield from _batch_line(f"offset: {batch.last_offset}", batch, is_valid)
        timestamp_type = batch.timestamp_type
        try:
            for entry in entries:
                integrity = b" isValid: %b crc: %d}" % (_TRUTH[entry.crc_matches].encode(), entry.crc)
                if self._decoder is None:
                    yield record_line(entry.record, timestamp_type, integrity, self._with_data, lease_if_large)
                else:
                    line = record_line(entry.record, timestamp_type, integrity, False)
                    yield line + jvm_encoded(self._decoder.text(entry.record))
        except MalformedRecordsError:
            if batch.codec is Codec.NONE and batch.value_size > 0:
                # The real tool has printed the entry's metadata when it finds that the value is not there.
                yield (
                    f"| offset: {batch.offset} {timestamp_type.label}: {batch.timestamp} keySize: {batch.key_size}"
                    f" valueSize: {batch.value_size} isValid: {_TRUTH[is_valid]} crc: {batch.crc}}}"
                ).encode()
            raise

    def entry(self, entry: Entry) -> bytes:
        """Return the entry's own line."""
        return _encoded(entry.text)

    def damage(self, error: StorageError) -> bytes:
        """Return one line with the reason and the place."""
        return _encoded(f"Damaged: {error}")

    def trailing(self, path: str, position: int, size_bytes: int) -> bytes:  # noqa: ARG002 -- the real tool does not say where
        """Count the bytes."""
        return _encoded(f"Found {size_bytes} invalid bytes at the end of {PurePath(path).name}")


def _batch_line(beginning: str, batch: Batch, is_valid: bool) -> Iterator[bytes]:
    try:
        codec = batch.codec
    except StorageError:
        yield beginning.encode()  # which is as far as the real tool comes
        raise
    yield (
        f"{beginning} position: {batch.position} {batch.timestamp_type.label}: {batch.max_timestamp}"
        f" size: {batch.size_bytes} magic: {batch.magic} compresscodec: {codec.label} crc: {batch.crc}"
        f" isvalid: {_TRUTH[is_valid]}"
    ).encode()


def _control_lines(records: Iterable[Record], timestamp_type: int, release: Release) -> Iterator[bytes]:
    for record in records:
        line = record_line(record, timestamp_type, None, False)
        try:
            line += control_text(record, release).encode()
        except StorageError:
            yield line  # which is as far as the real tool comes
            raise
        yield line


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
