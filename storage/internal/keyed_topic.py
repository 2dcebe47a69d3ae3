"""Topics whose keys and values each begin with a number of 16 bits: a key with its type, a value with its version."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.errors import InvalidRecordError
from storage.internal.definitions import table
from storage.internal.outcome import Outcome, Raw, read, unknown_version
from storage.record.kernel.message_writer import write_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.internal.definitions import Definition
    from storage.record.kernel.message_schema import MessageSchema

_NUMBER: Final = struct.Struct(">h")
_NO_TYPE: Final = "the key is missing, and it would tell the type"


class KeyedRecord(NamedTuple):
    """A record's type, its key and its value.

    `type` is None if the key does not state one. `key` is None if the record has none; `value` is None for a tombstone,
    which deletes the records with this key before it.
    """

    type: int | None
    key: Outcome | None
    value: Outcome | None


class KeyedTopic:
    """Reads and writes the records of a topic by its table.

    `aliases` are types that are read and written as another's.
    """

    def __init__(self, name: str, aliases: Mapping[int, int] | None = None) -> None:
        self._name = name
        self._aliases = aliases or {}

    def definitions(self, record_type: int) -> tuple[Definition, Definition] | None:
        """Return the definitions of a type's key and value; None for a type that is not known."""
        return self._pairs.get(record_type)

    def decode(self, key: bytes | None, value: bytes | None) -> KeyedRecord:
        """Decode a record.

        Never raises for any bytes: an unknown type or version, and bytes that are no such message, give `Raw`. The last
        record with a key replaces those before it.
        """
        if key is None or len(key) < _NUMBER.size:
            raw = None if key is None else Raw(key, None, None, "the key is shorter than its type")
            return KeyedRecord(None, raw, None if value is None else Raw(value, None, None, _NO_TYPE))
        (record_type,) = _NUMBER.unpack_from(key)
        pair = self._readers.get(record_type)
        if pair is None:
            reason = f"{record_type} is no type that is known here"
            version = None if value is None or len(value) < _NUMBER.size else _NUMBER.unpack_from(value)[0]
            unread = None if value is None else Raw(value, record_type, version, reason)
            return KeyedRecord(record_type, Raw(key, record_type, None, reason), unread)
        key_definition, key_schema, value_definition, schemas = pair
        said = read(key_definition, key_schema, 0, key, _NUMBER.size)
        if value is None:
            return KeyedRecord(record_type, said, None)
        if len(value) < _NUMBER.size:
            return KeyedRecord(
                record_type, said, Raw(value, record_type, None, "the value is shorter than its version")
            )
        (version,) = _NUMBER.unpack_from(value)
        schema = schemas.get(version)
        if schema is None:
            if not value_definition.knows(version):
                return KeyedRecord(record_type, said, unknown_version(value_definition, version, value))
            schema = schemas[version] = value_definition.schema(version)
        return KeyedRecord(record_type, said, read(value_definition, schema, version, value, _NUMBER.size))

    def encode_key(self, record_type: int, fields: dict[str, Any]) -> bytes:
        """Return the bytes of a key; raises `InvalidRecordError` for an unknown type or fields that do not fit it."""
        definition, _ = self._known(record_type)
        return _NUMBER.pack(record_type) + write_message(definition.schema(0), fields)

    def encode_value(self, record_type: int, version: int, fields: dict[str, Any]) -> bytes:
        """Return a value's bytes; raises `InvalidRecordError` if type or version is unknown or fields do not fit."""
        _, definition = self._known(record_type)
        return _NUMBER.pack(version) + write_message(definition.schema(version), fields)

    def _known(self, record_type: int) -> tuple[Definition, Definition]:
        pair = self._pairs.get(record_type)
        if pair is None:
            raise InvalidRecordError(f"{record_type} is no type that is known here")
        return pair

    @cached_property
    def _pairs(self) -> dict[int, tuple[Definition, Definition]]:
        sides: dict[int, dict[bool, Definition]] = {}
        for definition in table(self._name):
            if definition.api_key is not None:
                sides.setdefault(definition.api_key, {})[definition.name.endswith("Key")] = definition
        pairs = {number: (side[True], side[False]) for number, side in sides.items()}
        return pairs | {alias: pairs[number] for alias, number in self._aliases.items()}

    @cached_property
    def _readers(self) -> dict[int, tuple[Definition, MessageSchema, Definition, dict[int, MessageSchema]]]:
        return {number: (key, key.schema(0), value, {}) for number, (key, value) in self._pairs.items()}
