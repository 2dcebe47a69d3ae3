"""A record as JSON: the envelope, which loses nothing.

Bytes that are valid UTF-8 are a string; otherwise the field is left out and the one with `_base64` after its name
stands in its place. That goes for keys, values, header values, and for header names too, which nothing on a disk keeps
from being other bytes. Null and empty differ, the order of fields is fixed, and of a string only what JSON wants
escaped is. Reading envelopes is left to `envelope_reading`, and what one says of the batch to `batch_member`.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Final

from kafkafs.render.batch_member import BATCH_FIELD
from storage.record import TimestampType, json_member

if TYPE_CHECKING:
    from storage.record import Record

_INDENT: Final = 2
_PARTS_MAX: Final = 4096
"""How many parts of headers are held before they are joined."""
_TIMESTAMP_TYPES: Final = {kind.value: quoted(kind.label) for kind in TimestampType}


class Envelope:
    """The envelopes of one partition's records. A large key or value is written without Python's lock."""

    def __init__(self, topic: str, partition: int) -> None:
        self._start = f'{{"topic":{quoted(topic)},"partition":{partition},'
        self.beginning = self._start.encode()
        """What the line of each record begins with, before its own members."""

    def line(self, record: Record) -> bytes:
        """Return the envelope on one line, with its newline."""
        beginning = f"{self._start}{place_members(record)},".encode()
        return b"".join((beginning, *_data_parts(record), b"}\n"))

    def indented(self, record: Record, batch: dict[str, object] | None = None) -> bytes:
        """The envelope for people to read, with a newline after it; of the batch it says `batch`, if anything."""
        place = _indented(json.loads(f"{self._start}{place_members(record)}}}"))
        headers = _indented({"headers": []}) if record.header_count == 0 else _indented_headers(record)
        members = [
            place,
            json_member(b'  "key', record.key, b": "),
            json_member(b'  "value', record.value, b": "),
            headers,
        ]
        if batch is not None:
            members.append(_indented({BATCH_FIELD: batch}))
        return b"".join((b"{\n", b",\n".join(members), b"\n}\n"))


def place_members(record: Record) -> str:
    """The members of an object that say where and when a record is, without the braces."""
    return (
        f'"offset":{record.offset},"timestamp":{record.timestamp},'
        f'"timestampType":{_TIMESTAMP_TYPES[record.timestamp_type]}'
    )


def data_members(record: Record) -> bytes:
    """The members of an object that say what is in a record, without the braces."""
    return b"".join(_data_parts(record))


def headers_member(record: Record) -> bytes:
    """The member of an object that has the record's headers."""
    return b"".join(_header_parts(record))


def _data_parts(record: Record) -> tuple[bytes, ...]:
    key, value = json_member(b'"key', record.key, b":"), json_member(b'"value', record.value, b":")
    return key, b",", value, b",", *_header_parts(record)


def _header_parts(record: Record) -> list[bytes]:
    if record.header_count == 0:
        return [b'"headers":[]']
    joined = []
    parts = [b'"headers":']
    separator = b"["
    for name, value in record.headers:
        parts += (
            separator,
            json_member(b'{"key', _name_bytes(name), b":"),
            json_member(b',"value', value, b":"),
            b"}",
        )
        separator = b","
        if len(parts) >= _PARTS_MAX:  # a small object for each takes much more memory than the text
            joined.append(b"".join(parts))
            parts.clear()
    parts.append(b"]")
    return [*joined, *parts]


def _name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _indented(members: dict[str, object]) -> bytes:
    """Return small members as they are in an object that is indented, without its braces."""
    return json.dumps(members, ensure_ascii=False, indent=_INDENT)[2:-2].encode()


def _indented_headers(record: Record) -> bytes:
    headers = [
        b"".join(
            (
                b"    {\n",
                json_member(b'      "key', _name_bytes(name), b": "),
                b",\n",
                json_member(b'      "value', value, b": "),
                b"\n    }",
            )
        )
        for name, value in record.headers
    ]
    return b"".join((b'  "headers": [\n', b",\n".join(headers), b"\n  ]"))
