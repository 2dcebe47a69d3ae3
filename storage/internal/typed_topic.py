"""Topics whose values begin with unsigned varints for frame, type and version, then the message."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from storage.errors import InvalidRecordError
from storage.internal.definitions import table
from storage.internal.outcome import Outcome, Raw, read, unknown_version
from storage.record.kernel.message_writer import write_message

if TYPE_CHECKING:
    from storage.internal.definitions import Definition
    from storage.record.kernel.message_schema import MessageSchema

_FRAME_VERSION: Final = 1
_USUAL_HEAD_SIZE: Final = 3
_VARINT_BYTES_MAX: Final = 5
_ONE_BYTE: Final = 0x80


class TypedTopic:
    """Reads and writes the values of a topic by its table."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._readers: dict[bytes, tuple[Definition, MessageSchema, int]] = {}

    def definition(self, record_type: int) -> Definition | None:
        """Return the definition of a type; None for a type that is not known."""
        return self._definitions.get(record_type)

    def decode(self, value: bytes) -> Outcome:
        """Decode a value.

        Never raises for any bytes: an unknown frame, type or version, and bytes that are no such message, give `Raw`.
        """
        # The numbers take a byte each in nearly all values, so these bytes alone identify the schema.
        reader = self._readers.get(value[:_USUAL_HEAD_SIZE])
        if reader is not None:
            return read(*reader, value, _USUAL_HEAD_SIZE)
        frame, position = _unsigned_varint(value, 0)
        if frame != _FRAME_VERSION:
            stated = "missing" if frame is None else str(frame)
            return Raw(value, None, None, f"the frame version is {stated}, not {_FRAME_VERSION}")
        record_type, position = _unsigned_varint(value, position)
        version, position = _unsigned_varint(value, position)
        if record_type is None or version is None:
            return Raw(value, record_type, None, "the record ends before its type and version do")
        definition = self._definitions.get(record_type)
        if definition is None:
            return Raw(value, record_type, version, f"{record_type} is no type that is known here")
        if not definition.knows(version):
            return unknown_version(definition, version, value)
        reader = (definition, definition.schema(version), version)
        if position == _USUAL_HEAD_SIZE:
            self._readers[value[:position]] = reader
        return read(*reader, value, position)

    def encode(self, record_type: int, version: int, fields: dict[str, Any]) -> bytes:
        """Return a value's bytes; raises `InvalidRecordError` if type or version is unknown or fields do not fit."""
        definition = self._definitions.get(record_type)
        if definition is None:
            raise InvalidRecordError(f"{record_type} is no type that is known here")
        body = write_message(definition.schema(version), fields)
        return b"".join(map(_varint_bytes, (_FRAME_VERSION, record_type, version))) + body

    @cached_property
    def _definitions(self) -> dict[int, Definition]:
        return {definition.api_key: definition for definition in table(self._name) if definition.api_key is not None}


def _unsigned_varint(data: bytes, position: int) -> tuple[int | None, int]:
    """Return the number at a position and the position after it; None for a number that does not end."""
    value = 0
    for index, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * index
        if byte < _ONE_BYTE:
            return value & 0xFFFFFFFF, position + index + 1
    return None, len(data)


def _varint_bytes(value: int) -> bytes:
    made = bytearray()
    while value >= _ONE_BYTE:
        made.append(value & 0x7F | _ONE_BYTE)
        value >>= 7
    made.append(value)
    return bytes(made)
