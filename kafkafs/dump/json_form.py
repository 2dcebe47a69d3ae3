"""A dump as JSON objects: one for each file, batch, record, entry, damaged place and run of trailing bytes; `type` says
which.

A record's key, value and headers are those of the envelope, unless a decoder is given. What an object's kind does not
have is left out, the order of fields is fixed.
"""

from __future__ import annotations

from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.control_text import control_object
from kafkafs.dump.file_kinds import log_start_offset, snapshot_end_and_epoch
from kafkafs.render.envelope import data_members, headers_member, place_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.dump.decoded import RecordDecoder
    from kafkafs.dump.entry_dump import Entry
    from storage.errors import StorageError
    from storage.record import LegacyBatch, LegacyEntry, Record, RecordBatch

_encode: Final = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_TRUTH: Final = ("false", "true")


class JsonForm:
    """An object for each part of the dump, each a line; with a decoder, records' keys and values are objects too."""

    def __init__(self, *, with_data: bool = True, decoder: RecordDecoder | None = None) -> None:
        self._with_data = with_data
        self._decoder = decoder

    def heading(self, path: str) -> list[bytes]:
        """Name the file, and what its own name says."""
        fields: dict[str, Any] = {"type": "file", "path": path}
        start_offset = log_start_offset(path)
        if start_offset is not None:
            fields["startOffset"] = start_offset
        snapshot = snapshot_end_and_epoch(path)
        if snapshot is not None:
            fields["endOffset"], fields["epoch"] = snapshot
        return [_line(fields)]

    def batch(self, batch: RecordBatch, records: Iterable[Record], *, is_valid: bool) -> Iterator[bytes]:
        """Yield an object for the batch, and one for each record."""
        yield _line(
            {
                "type": "batch",
                "baseOffset": batch.base_offset,
                "lastOffset": batch.last_offset,
                "count": batch.count,
                "baseSequence": batch.base_sequence,
                "lastSequence": batch.last_sequence,
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
                "partitionLeaderEpoch": batch.leader_epoch,
                "isTransactional": batch.is_transactional,
                "isControl": batch.is_control,
                "deleteHorizonMs": batch.delete_horizon_ms,
                "position": batch.position,
                "timestampType": batch.timestamp_type.label,
                "maxTimestamp": batch.max_timestamp,
                "size": batch.size_bytes,
                "magic": batch.magic,
                "codec": batch.codec.label,
                "crc": batch.crc,
                "isValid": is_valid,
            }
        )
        for record in records:
            if batch.is_control:
                control = f',"control":{_encode(control_object(record))}'
                yield f'{self._record(record, None)},"sequence":{record.sequence}{control}}}'.encode()
            else:
                yield _encoded(f'{self._record(record, self._decoder)},"sequence":{record.sequence}}}')

    def message_set(self, batch: LegacyBatch, entries: Iterable[LegacyEntry], *, is_valid: bool) -> Iterator[bytes]:
        """Yield an object for the outer entry, and one for each record."""
        yield _line(
            {
                "type": "batch",
                "lastOffset": batch.last_offset,
                "position": batch.position,
                "timestampType": batch.timestamp_type.label,
                "maxTimestamp": batch.max_timestamp,
                "size": batch.size_bytes,
                "magic": batch.magic,
                "codec": batch.codec.label,
                "crc": batch.crc,
                "isValid": is_valid,
            }
        )
        for entry in entries:
            beginning = self._record(entry.record, self._decoder)
            yield _encoded(f'{beginning},"crc":{entry.crc},"isValid":{_TRUTH[entry.crc_matches]}}}')

    def entry(self, entry: Entry) -> bytes:
        """Return an object with the entry's fields."""
        return _line({"type": entry.type, **entry.fields})

    def damage(self, error: StorageError) -> bytes:
        """Return an object with the reason, and the place as far as it is known."""
        fields = {
            "type": "damage",
            "reason": error.reason,
            "path": error.path,
            "position": error.position,
            "offset": error.offset,
        }
        return _line({name: value for name, value in fields.items() if value is not None})

    def trailing(self, path: str, position: int, size_bytes: int) -> bytes:
        """Return an object with the place and size."""
        return _line({"type": "trailing", "path": path, "position": position, "bytes": size_bytes})

    def _record(self, record: Record, decoder: RecordDecoder | None) -> str:
        """Return the beginning of a record's object, which the members of its kind follow."""
        if decoder is not None:
            data = f"{decoder.members(record)},{headers_member(record).decode()}"
        elif self._with_data:
            data = data_members(record).decode()
        else:
            data = f'"keySize":{record.key_size},"valueSize":{record.value_size}'
        return f'{{"type":"record",{place_members(record)},{data}'


def _line(fields: dict[str, Any]) -> bytes:
    return _encoded(_encode(fields))


def _encoded(text: str) -> bytes:
    # A path, and a string of an internal record, can have bytes that are no text; they come out as JSON's escapes of
    # lone surrogates.
    return text.encode("utf-8", "backslashreplace")
