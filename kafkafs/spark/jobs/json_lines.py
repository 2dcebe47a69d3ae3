"""Reads lines of JSON as rows for the sink, in Spark's workers: envelopes, or objects with fields named by options.

A line that cannot be stored exactly as it says is an error, which shows its beginning; nothing is guessed or left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import parse_time
from kafkafs.render.envelope_reading import row_and_place
from storage.clock import Clock
from storage.errors import InvalidRecordError
from storage.record import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SCHEMA: Final = (
    "key binary, value binary, headers array<struct<key string, value binary>>, topic string, partition int, "
    "timestamp timestamp, offset long"
)
_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("offset", pa.int64()),
    ]
)
_SHOWN_CHARACTERS: Final = 60
_BLANKS: Final = " \t\r\n"


class LineRow(NamedTuple):
    """A line's record, and its topic, partition and offset if the line has them."""

    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]]
    topic: str | None
    partition: int | None
    timestamp_ms: int
    offset: int | None


class EnvelopeLines:
    """Reads lines that are envelopes, as `append.jsonl` takes them."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def row(self, line: str) -> LineRow:
        """Return the record of a line; raises `InvalidRecordError`."""
        (timestamp_ms, key, value, headers), place = row_and_place(line.encode(), timestamp_ms=self._now_ms)
        named = [{"key": _name(name), "value": header} for name, header in headers]
        return LineRow(_bytes(key), _bytes(value), named, place.topic, place.partition, timestamp_ms, place.offset)


class ObjectLines:
    """Reads lines that are JSON objects; `columns` says which field is the key, the value and so on.

    A string is its text, null is null, and anything else is its JSON in the line. Without a field for `value` the value
    is the line. A missing field is null; a missing field for the value is an error.
    """

    def __init__(self, columns: Mapping[str, str], now_ms: int) -> None:
        self._columns = columns
        self._now_ms = now_ms
        self._decoder = json.JSONDecoder()

    def row(self, line: str) -> LineRow:
        """Return the record of a line; raises `InvalidRecordError`."""
        fields = self._fields(line)
        value_field = self._columns.get("value")
        if value_field is None:
            value: bytes | None = line.encode()
        elif value_field in fields:
            value = _text(*fields[value_field])
        else:
            raise InvalidRecordError(f"there is no field {value_field!r} for the value; there are {', '.join(fields)}")
        found: dict[str, Any] = {name: fields.get(field, (None, ""))[0] for name, field in self._columns.items()}
        key_field = self._columns.get("key", "")
        topic, partition, offset = found.get("topic"), found.get("partition"), found.get("offset")
        if not (topic is None or isinstance(topic, str)):
            raise InvalidRecordError("the topic is not a string")
        for number in (partition, offset):
            if not (number is None or type(number) is int):
                raise InvalidRecordError("the partition or the offset is not a whole number")
        return LineRow(
            _text(*fields[key_field]) if key_field in fields else None,
            value,
            _headers(found.get("headers")),
            topic,
            partition,
            self._timestamp_ms(found.get("timestamp")),
            offset,
        )

    def _timestamp_ms(self, time: object) -> int:
        if time is None:
            return self._now_ms
        if type(time) is int and time >= NO_TIMESTAMP:
            return time
        if isinstance(time, str):
            try:
                return parse_time(time).resolve(self._now_ms)
            except BadNameError as error:
                raise InvalidRecordError(str(error)) from None
        raise InvalidRecordError(
            "the timestamp is neither a whole number of milliseconds nor a time such as 2026-11-21"
        )

    def _fields(self, line: str) -> dict[str, tuple[object, str]]:
        """Return the line's fields: the value of each, and its text in the line."""
        found: dict[str, tuple[object, str]] = {}
        try:
            position = self._after(line, 0, "{")
            is_first = True
            while (position := _skipped(line, position)) < len(line) and line[position] != "}":
                if not is_first:
                    position = _skipped(line, self._after(line, position, ","))
                name, position = self._decoder.raw_decode(line, position)
                if not isinstance(name, str) or name in found:
                    raise InvalidRecordError(f"{name!r} is no name of a field, or is there twice")
                start = _skipped(line, self._after(line, position, ":"))
                value, position = self._decoder.raw_decode(line, start)
                found[name] = value, line[start:position]
                is_first = False
            if _skipped(line, self._after(line, position, "}")) != len(line):
                raise InvalidRecordError("something follows the object")
        except json.JSONDecodeError as error:
            raise InvalidRecordError(f"this is not JSON: {error.msg} (character {error.colno})") from None
        except (RecursionError, ValueError):
            raise InvalidRecordError("this JSON is nested too deeply, or has a number of too many digits") from None
        return found

    def _after(self, line: str, position: int, expected: str) -> int:
        position = _skipped(line, position)
        if line[position : position + 1] != expected:
            raise json.JSONDecodeError(f"Expecting {expected!r}", line, position)
        return position + 1


def envelope_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of lines that are envelopes, for `mapInArrow`."""
    return _rows(batches, EnvelopeLines(Clock().now_ms()).row)


def object_batches(columns: Mapping[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that makes rows of lines with objects."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _rows(batches, ObjectLines(columns, Clock().now_ms()).row)

    return rows


def _rows(batches: Iterator[pa.RecordBatch], read: Callable[[str], LineRow]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = []
        lines: list[Any] = batch.column(0).to_pylist()
        for line in lines:
            if line.strip(_BLANKS):
                try:
                    found.append(read(line))
                except InvalidRecordError as error:
                    shown = line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
                    raise InvalidRecordError(f"a line is no record: {error.reason}; the line is {shown}") from None
        yield _batch(found)


def _batch(rows: list[LineRow]) -> pa.RecordBatch:
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _ARROW]
    number = _ARROW.get_field_index("timestamp")
    columns[number] = [time_ms * 1000 for time_ms in columns[number]]
    try:
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
        )
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InvalidRecordError(f"a line has a number that is too large: {error}") from None


def _text(value: object, text: str) -> bytes | None:
    try:
        return None if value is None else (value if isinstance(value, str) else text).encode()
    except UnicodeEncodeError:
        raise InvalidRecordError("a field has half of a surrogate pair, which is no text") from None


def _bytes(data: object) -> bytes | None:
    return None if data is None else bytes(data)  # type: ignore[call-overload]


def _name(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidRecordError("the name of a header is not UTF-8, and Spark has no other texts") from None
    return name


def _headers(given: object) -> list[dict[str, Any]]:
    if given is None:
        return []
    if isinstance(given, list):
        found: list[tuple[Any, Any]] = [
            (each.get("key"), each.get("value")) for each in given if isinstance(each, dict)
        ]
        if len(found) == len(given) and all(
            isinstance(key, str) and (value is None or isinstance(value, str)) for key, value in found
        ):
            return [{"key": _name(key), "value": _text(value, "")} for key, value in found]
    raise InvalidRecordError('the headers are not of the form [{"key":"name","value":"text"}]')


def _skipped(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position
