"""Control records as Kafka's message definitions have them: ends of transactions, and those of a KRaft quorum.

Each is read into the fields of its version, for readers of internal topics. `storage.record.decode_control` decodes the
records that logs and checks act on into classes, refuses malformed ones and reads newer versions too. `decode` never
raises for any bytes. Values begin with a version of 16 bits; that of a transaction's end comes before the message, the
others have it as their first field.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from storage.errors import InvalidRecordError
from storage.internal.definitions import table
from storage.internal.outcome import Outcome, Raw, read, unknown_version
from storage.record import ControlType
from storage.record.kernel.message_writer import write_message
from storage.record.layout import CONTROL_KEY

if TYPE_CHECKING:
    from storage.internal.definitions import Definition

_NUMBER: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
_ENDS_OF_TRANSACTIONS: Final = (ControlType.ABORT, ControlType.COMMIT)


def control_type(key: bytes | None) -> int | None:
    """Return the type that a control record's key states; None if it states none."""
    return None if key is None or len(key) < CONTROL_KEY.size else int(CONTROL_KEY.unpack_from(key)[1])


def decode(key: bytes | None, value: bytes | None) -> Outcome | None:
    """Decode a control record; None if it has no value."""
    if value is None:
        return None
    record_type = control_type(key)
    if record_type is None:
        return Raw(value, None, None, "the key is missing or shorter than its version and type")
    found = definition(record_type)
    version = int(_NUMBER.unpack_from(value)[0]) if len(value) >= _NUMBER.size else None
    if found is None:
        return Raw(value, record_type, version, f"{record_type} is no type that is known here")
    if version is None:
        return Raw(value, record_type, None, "the value is shorter than its version")
    if not found.knows(version):
        return unknown_version(found, version, value)
    position = _NUMBER.size if record_type in _ENDS_OF_TRANSACTIONS else 0
    return read(found, found.schema(version), version, value, position)


def encode_key(record_type: int) -> bytes:
    """Return the bytes of a control record's key."""
    return CONTROL_KEY.pack(_KEY_VERSION, record_type)


def encode_value(record_type: int, version: int, fields: dict[str, Any]) -> bytes:
    """Return the bytes of a value, its version among them; raises `InvalidRecordError` for an impossible value."""
    found = definition(record_type)
    if found is None:
        raise InvalidRecordError(f"{record_type} is no type that is known here")
    schema = found.schema(version)
    if record_type in _ENDS_OF_TRANSACTIONS:
        return _NUMBER.pack(version) + write_message(schema, fields)
    return write_message(schema, fields | {"version": version})


def definition(record_type: int) -> Definition | None:
    """Return the definition of a type; None for a type that is not known."""
    return _definitions().get(record_type)


@cache
def _definitions() -> dict[int, Definition]:
    known = {each.api_key: each for each in table("control") if each.api_key is not None}
    return known | {int(ControlType.ABORT): known[ControlType.COMMIT]}
