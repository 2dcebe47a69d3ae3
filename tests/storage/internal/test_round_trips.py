"""What the writer wrote the reader gives back, and what the reader gave the writer writes back."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from internal_messages import random_fields, versions

from storage.errors import InvalidRecordError, MalformedRecordsError
from storage.internal.definitions import table
from storage.record.kernel.message_reader import UNKNOWN_TAGGED_FIELDS, read_message
from storage.record.kernel.message_schema import MessageSchema
from storage.record.kernel.message_writer import write_message

EVERY = list(versions())
NAMES = [f"{definition.name}-{version}" for definition, version in EVERY]
TIMES = 20


def schema_of(kind: str, *, nullable: bool = False, flexible: bool = True) -> MessageSchema:
    default: object = [] if kind.startswith("[]") else None if nullable else ""
    return MessageSchema((("field", kind, nullable, None, default, None),), flexible=flexible)


@pytest.mark.parametrize(("definition", "version"), EVERY, ids=NAMES)
def test_every_version_is_read_back_equal(definition, version) -> None:
    chance = random.Random(f"{definition.name} {version}")
    schema = definition.schema(version)
    for _ in range(TIMES):
        fields = random_fields(chance, schema)
        written = write_message(schema, fields)
        assert read_message(schema, b"xx" + written + b"yy", 2) == (fields, 2 + len(written))
        assert list(read_message(schema, written)[0])[: len(schema.definition)] == [
            each[0] for each in schema.definition
        ]
        assert write_message(schema, read_message(schema, written)[0]) == written


@pytest.mark.parametrize(("definition", "version"), EVERY, ids=NAMES)
def test_every_version_cut_short_is_malformed(definition, version) -> None:
    chance = random.Random(f"{definition.name} {version}")
    schema = definition.schema(version)
    written = write_message(schema, random_fields(chance, schema))
    for size in range(min(len(written), 200)):
        with pytest.raises(MalformedRecordsError):
            read_message(schema, written[:size])


@pytest.mark.parametrize(("definition", "version"), EVERY, ids=NAMES)
def test_absent_fields_have_their_defaults(definition, version) -> None:
    schema = definition.schema(version)
    nameless = {name: schema.default()[name] for name, _, _, tag, _, _ in schema.definition if tag is None}
    required = {name: value for name, value in nameless.items() if value is not None}
    assert read_message(schema, write_message(schema, required))[0] == schema.default()


def test_defaults_are_the_readers_own() -> None:
    definition = next(each for each in table("metadata") if each.name == "BrokerRegistrationChangeRecord")
    schema = definition.schema(2)
    written = write_message(schema, {})
    read_message(schema, written)[0]["logDirs"].append(UUID(int=1))
    assert read_message(schema, written)[0]["logDirs"] == []


@pytest.mark.parametrize("data", [b"\xff", b"a\x80b", b"\xed\xa0\x80", b"\xc3", bytes(range(256))])
@pytest.mark.parametrize("flexible", [True, False])
def test_strings_that_are_not_utf8_survive(data: bytes, *, flexible: bool) -> None:
    schema = schema_of("string", flexible=flexible)
    written = write_message(schema, {"field": data.decode("utf-8", "surrogateescape")})
    assert data in written
    assert write_message(schema, read_message(schema, written)[0]) == written


def test_unknown_tagged_fields_are_kept_in_their_order() -> None:
    definition = next(each for each in table("metadata") if each.name == "PartitionChangeRecord")
    fields = definition.schema(2).default() | {"isr": [1], "eligibleLeaderReplicas": [2]}
    newer = write_message(definition.schema(2), fields)
    read, end = read_message(definition.schema(1), newer)
    assert end == len(newer)
    assert read[UNKNOWN_TAGGED_FIELDS] == [(6, b"\x02\x00\x00\x00\x02")]
    assert write_message(definition.schema(1), read) == newer
    assert UNKNOWN_TAGGED_FIELDS not in definition.schema(1).stated(read)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (schema_of("int8"), 128, "field: 128 is out of the range from -128 to 127"),
        (schema_of("uint16"), -1, "field: -1 is out of the range from 0 to 65535"),
        (schema_of("int64"), 1 << 63, "field: 9223372036854775808 is out of the range"),
        (schema_of("int32"), "1", "field: an integer is expected, not str"),
        (schema_of("float64"), "1", "field: a number is expected, not str"),
        (schema_of("string"), "x" * 32768, "field: a string has 32768 bytes, and 32767 are allowed"),
        (schema_of("string"), "\ud800", "field: a string cannot be written in UTF-8"),
        (schema_of("string"), b"x", "field: a string is a str, not bytes"),
        (schema_of("string"), None, "field: may not be null"),
        (schema_of("bytes"), "x", "field: bytes are a bytes object, not str"),
        (schema_of("uuid"), b"x" * 16, "field: an id is a UUID, not bytes"),
        (schema_of("[]int32"), 1, "field: an array is written from a list, not from int"),
        (schema_of("[]int32"), [None], "field: an element may not be null"),
        (schema_of("[]int32"), None, "field: may not be null"),
    ],
)
def test_what_cannot_be_written_is_refused(schema: MessageSchema, value: object, reason: str) -> None:
    with pytest.raises(InvalidRecordError, match=f"^{reason}"):
        write_message(schema, {"field": value})


def test_a_name_that_the_version_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="this version has no field other"):
        write_message(schema_of("int8"), {"field": 1, "other": 2})
    with pytest.raises(InvalidRecordError, match="this version has no tagged fields"):
        write_message(schema_of("int8", flexible=False), {"field": 1, UNKNOWN_TAGGED_FIELDS: [(1, b"")]})


def test_a_tag_is_written_once() -> None:
    with pytest.raises(InvalidRecordError, match="the tag 7 is there twice"):
        write_message(schema_of("int8"), {"field": 1, UNKNOWN_TAGGED_FIELDS: [(7, b""), (7, b"x")]})
