"""JSON envelopes, a line each, read as the records that they describe.

A value is needed, as `value` or `value_base64`; key, headers and timestamp may be left out. What says where a record
came from, its batch included, is passed over. All else is refused: what would have to be guessed at, or would be
lost, is not written.
"""

from __future__ import annotations

from base64 import b64decode
from json import JSONDecodeError, JSONDecoder
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kafkafs.render.batch_member import BATCH_FIELD
from storage.errors import InvalidRecordError
from storage.record import NO_TIMESTAMP, TimestampType

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from storage.record import Row

Fields: TypeAlias = dict[str, Any]


class Place(NamedTuple):
    """The origin of a record, as far as its envelope names it."""

    topic: str | None
    partition: int | None
    offset: int | None


_HEADER_FIELDS: Final = frozenset({"key", "key_base64", "value", "value_base64"})
_PLACE_FIELDS: Final = {"topic", "partition", "offset", BATCH_FIELD}
_FIELDS: Final = _HEADER_FIELDS | _PLACE_FIELDS | {"timestamp", "timestampType", "headers"}
_TIMESTAMP_TYPES: Final = tuple(kind.label for kind in TimestampType)
_LARGEST_TIMESTAMP: Final = 2**63 - 1

# An object becomes a tuple of its members, because a dictionary would hide those that come twice.
_decode: Final = JSONDecoder(object_pairs_hook=tuple).decode


def rows_of_envelopes(lines: bytes, *, timestamp_ms: int, number: int = 1) -> list[Row]:
    """Return a row for each line, whose last one may lack its newline; `timestamp_ms` replaces a missing time.

    The first line that is no envelope is an `InvalidRecordError` with its number, counted from `number` on.
    """
    rows = []
    for at, line in enumerate(lines.removesuffix(b"\n").split(b"\n"), number):
        try:
            rows.append(_row(_parsed(line), timestamp_ms))
        except InvalidRecordError as error:
            raise InvalidRecordError(f"line {at}: {error.reason}") from None
    return rows


def row_and_place(line: bytes, *, timestamp_ms: int) -> tuple[Row, Place]:
    """The row of one line, and where its record came from; raises `InvalidRecordError` for what is no envelope."""
    parsed = _parsed(line)
    row = _row(parsed, timestamp_ms)
    fields = dict(parsed)
    topic, partition, offset = (fields.get(name) for name in Place._fields)
    if not (topic is None or isinstance(topic, str)):
        raise InvalidRecordError("topic must be a string")
    for name, number in (("partition", partition), ("offset", offset)):
        if not (number is None or type(number) is int):
            raise InvalidRecordError(f"{name} must be a whole number")
    return row, Place(topic, partition, offset)


def _parsed(line: bytes) -> Any:  # noqa: ANN401 -- JSON may be anything
    try:
        return _decode(line.decode())
    except UnicodeDecodeError as error:
        raise InvalidRecordError(f"byte {error.start + 1} is not UTF-8, which all JSON is") from None
    except JSONDecodeError as error:
        raise InvalidRecordError(f"this is not JSON: {error.msg} (character {error.colno})") from None
    except (RecursionError, ValueError):
        raise InvalidRecordError("this JSON is nested too deeply, or has a number of too many digits") from None


def _row(parsed: Any, timestamp_ms: int) -> Row:  # noqa: ANN401
    fields = _fields(parsed, _FIELDS, "an envelope")
    timestamp = fields.get("timestamp", timestamp_ms)
    if type(timestamp) is not int or not NO_TIMESTAMP <= timestamp <= _LARGEST_TIMESTAMP:
        raise InvalidRecordError("timestamp must be a whole number of milliseconds since 1970, or -1 for none")
    if "timestampType" in fields and fields["timestampType"] not in _TIMESTAMP_TYPES:
        raise InvalidRecordError(f"timestampType must be one of {', '.join(_TIMESTAMP_TYPES)}")
    headers = fields.get("headers", [])
    if not isinstance(headers, list):
        raise InvalidRecordError("headers must be an array")
    key = _bytes(fields, "key", "key_base64", is_needed=False)
    value = _bytes(fields, "value", "value_base64")
    return timestamp, key, value, [_header(header) for header in headers]


def _header(parsed: Any) -> tuple[str, bytes | None]:  # noqa: ANN401
    fields = _fields(parsed, _HEADER_FIELDS, "a header")
    name = _bytes(fields, "key", "key_base64")
    if name is None:
        raise InvalidRecordError("a header's key must not be null")
    return name.decode("utf-8", "surrogateescape"), _bytes(fields, "value", "value_base64")


def _fields(parsed: Any, known: AbstractSet[str], what: str) -> Fields:  # noqa: ANN401
    if not isinstance(parsed, tuple):
        raise InvalidRecordError(f"{what} must be a JSON object")
    fields = dict(parsed)
    if len(fields) != len(parsed):
        raise InvalidRecordError(f"{what} has a field twice")
    if not fields.keys() <= known:
        unknown = next(name for name in fields if name not in known)
        raise InvalidRecordError(f"{what} has no field {unknown!r}; it has {', '.join(sorted(known))}")
    return fields


def _bytes(fields: Fields, name: str, coded_name: str, *, is_needed: bool = True) -> bytes | None:
    if coded_name in fields:
        if name in fields:
            raise InvalidRecordError(f"{name} and {coded_name} exclude each other")
        return _decoded(fields[coded_name], coded_name)
    if name not in fields:
        if is_needed:
            raise InvalidRecordError(f"{name} is missing, and so is {coded_name}")
        return None
    text = fields[name]
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidRecordError(f"{name} must be a string or null")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRecordError(f"{name} has half of a surrogate pair, which is no text") from None


def _decoded(text: Any, name: str) -> bytes:  # noqa: ANN401
    if not isinstance(text, str):
        raise InvalidRecordError(f"{name} must be a string")
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InvalidRecordError(f"{name} is not base64") from None
