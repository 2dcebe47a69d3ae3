"""A record as JSON: the envelope, which loses nothing.

Bytes that are valid UTF-8 are a string; otherwise the field is left out and the one with `_base64` after its name
stands in its place. That goes for keys, values, header values, and for header names too, which nothing on a disk keeps
from being other bytes. Null and empty differ, the order of fields is fixed, and of a string only what JSON wants
escaped is. Reading envelopes is left to `envelope_reading`, and what one says of the batch to `batch_member`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Final

from kafkafs.render.batch_member import BATCH_FIELD
from storage.record import TimestampType

if TYPE_CHECKING:
    from storage.record import Record

_INDENT: Final = 2
_TIMESTAMP_TYPES: Final = {kind.value: quoted(kind.label) for kind in TimestampType}


class Envelope:
    """The envelopes of one partition's records."""

    def __init__(self, topic: str, partition: int) -> None:
        self._start = f'{{"topic":{quoted(topic)},"partition":{partition},'
        self.beginning = self._start.encode()
        """What the line of each record begins with, before its own members."""

    def line(self, record: Record) -> bytes:
        """Return the envelope on one line, with its newline."""
        return f"{self._start}{place_members(record)},{data_members(record)}}}\n".encode()

    def indented(self, record: Record, batch: dict[str, object] | None = None) -> bytes:
        """The envelope for people to read, with a newline after it; of the batch it says `batch`, if anything."""
        fields = json.loads(self.line(record))
        if batch is not None:
            fields[BATCH_FIELD] = batch
        return f"{json.dumps(fields, ensure_ascii=False, indent=_INDENT)}\n".encode()


def place_members(record: Record) -> str:
    """The members of an object that say where and when a record is, without the braces."""
    return (
        f'"offset":{record.offset},"timestamp":{record.timestamp},'
        f'"timestampType":{_TIMESTAMP_TYPES[record.timestamp_type]}'
    )


def data_members(record: Record) -> str:
    """The members of an object that say what is in a record, without the braces."""
    key = _member("key", record.key)
    value = _member("value", record.value)
    return f"{key},{value},{headers_member(record)}"


def headers_member(record: Record) -> str:
    """The member of an object that has the record's headers."""
    headers = record.headers
    if not headers:
        return '"headers":[]'
    return f'"headers":[{",".join([_header(name, data) for name, data in headers])}]'


def _member(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{b64encode(data).decode()}"'


def _header(name: str, value: bytes | None) -> str:
    key = f'"key":{quoted(name)}' if name.isascii() else _member("key", name.encode("utf-8", "surrogateescape"))
    return f"{{{key},{_member('value', value)}}}"
