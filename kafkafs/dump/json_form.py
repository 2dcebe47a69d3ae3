"""A dump as JSON objects: one for each file, batch, record, entry, damaged place and run of trailing bytes; `type` says
which.

A record's key, value and headers follow the envelope: bytes that are UTF-8 are a string; otherwise the field is left
out and `key_base64` or `value_base64` stands in its place. Null and empty differ. What an object's kind does not have
is left out, the order of fields is fixed.
"""

from __future__ import annotations

from base64 import b64encode
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.control_text import control_object
from kafkafs.dump.log_names import log_start_offset, snapshot_end
from storage.record.layout import TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.dump.entry_dump import Entry
    from storage.errors import StorageError
    from storage.record.batch import RecordBatch
    from storage.record.kernel.decode import Record
    from storage.record.legacy import LegacyBatch, LegacyEntry

_encode: Final = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_TIMESTAMP_TYPES: Final = {kind.value: kind.label for kind in TimestampType}


class JsonForm:
    """An object for each part of the dump, each a line."""

    def __init__(self, *, with_data: bool = True) -> None:
        self._with_data = with_data

    def heading(self, path: str) -> list[bytes]:
        """Name the file, and what its own name says."""
        fields: dict[str, Any] = {"type": "file", "path": path}
        start_offset = log_start_offset(path)
        if start_offset is not None:
            fields["startOffset"] = start_offset
        snapshot = snapshot_end(path)
        if snapshot is not None:
            fields["endOffset"], fields["epoch"] = snapshot
        return [_line(fields)]

    def batch(self, batch: RecordBatch, records: Iterable[Record], *, is_valid: bool) -> Iterator[bytes]:
        """An object for the batch, and for each record."""
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
            fields = self._record(record)
            fields["sequence"] = record.sequence
            if batch.is_control:
                fields["control"] = control_object(record)
            yield _line(fields)

    def message_set(self, batch: LegacyBatch, entries: Iterable[LegacyEntry], *, is_valid: bool) -> Iterator[bytes]:
        """An object for the outer entry, and for each record."""
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
            fields = self._record(entry.record)
            fields["crc"] = entry.crc
            fields["isValid"] = entry.crc_matches
            yield _line(fields)

    def entry(self, entry: Entry) -> bytes:
        """An object with the entry's fields."""
        return _line({"type": entry.type, **entry.fields})

    def damage(self, error: StorageError) -> bytes:
        """An object with the reason, and the place as far as it is known."""
        fields = {
            "type": "damage",
            "reason": error.reason,
            "path": error.path,
            "position": error.position,
            "offset": error.offset,
        }
        return _line({name: value for name, value in fields.items() if value is not None})

    def trailing(self, path: str, position: int, size_bytes: int) -> bytes:
        """An object with the place and size."""
        return _line({"type": "trailing", "path": path, "position": position, "bytes": size_bytes})

    def _record(self, record: Record) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "type": "record",
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": _TIMESTAMP_TYPES[record.timestamp_type],
        }
        if self._with_data:
            _put(fields, "key", record.key)
            _put(fields, "value", record.value)
            fields["headers"] = [_header(name, value) for name, value in record.headers]
        else:
            fields["keySize"] = record.key_size
            fields["valueSize"] = record.value_size
        return fields


def _put(fields: dict[str, Any], name: str, value: bytes | None) -> None:
    try:
        fields[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        fields[f"{name}_base64"] = b64encode(value).decode()


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    _put(fields, "key", name.encode("utf-8", "surrogateescape"))
    _put(fields, "value", value)
    return fields


def _line(fields: dict[str, Any]) -> bytes:
    # Only a path can have bytes that are no text; they come out as JSON's escapes of lone surrogates.
    return _encode(fields).encode("utf-8", "backslashreplace")
