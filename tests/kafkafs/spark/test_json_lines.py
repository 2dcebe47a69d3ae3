"""Lines of JSON as rows: what each becomes, and what is said of those that become none."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.spark.jobs.json_lines import SCHEMA, EnvelopeLines, LineRow, ObjectLines, envelope_batches, object_batches
from storage.errors import InvalidRecordError

NOW = 1_700_000_000_000
NAMES = {name: name for name in ("key", "value", "headers", "topic", "partition", "timestamp", "offset")}
MEMBERS = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
)


def row(line: str, **columns: str) -> LineRow:
    return ObjectLines({**NAMES, **columns}, NOW).row(line)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"text"', b"text"),
        ("null", None),
        ("1.10", b"1.10"),
        ("12345678901234567890", b"12345678901234567890"),
        ("true", b"true"),
        ('{"a" : [1,  2]}', b'{"a" : [1,  2]}'),
        (r'"\u00fc"', "ü".encode()),
    ],
)
def test_what_a_field_becomes(text: str, value: bytes | None) -> None:
    line = f' {{ "id" : 1 ,"v":{text}}} '
    found = row(line, value="v", key="id")
    assert (found.key, found.value, found.timestamp_ms) == (b"1", value, NOW)
    assert ObjectLines({}, NOW).row(line).value == line.encode()


def test_all_of_a_row() -> None:
    line = (
        '{"value":"v","topic":"t","partition":3,"offset":9,"timestamp":-1,'
        '"headers":[{"key":"a","value":"b"},{"key":"a","value":null}],"more":0}'
    )
    headers = [{"key": "a", "value": b"b"}, {"key": "a", "value": None}]
    assert row(line) == LineRow(None, b"v", headers, "t", 3, -1, 9)
    assert row('{"value":"v","timestamp":"2023-11-14T22:13:20Z"}').timestamp_ms == NOW


@given(MEMBERS)
def test_fields_are_those_of_any_other_reader(members: dict[str, object]) -> None:
    line = json.dumps({**members, "value": "v"}, ensure_ascii=False)
    fields = ObjectLines({"value": "value"}, NOW)._fields(line)
    assert {name: value for name, (value, _) in fields.items()} == json.loads(line)
    assert all(json.loads(text) == value for value, text in fields.values())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"v":1}', "there is no field 'value' for the value; there are v"),
        ('{"value":1', "this is not JSON: Expecting '}'"),
        ('{"value":1 "a":2}', "this is not JSON: Expecting ','"),
        ('{"value" 1}', "this is not JSON: Expecting ':'"),
        ('{"value":1,}', "this is not JSON: Expecting value"),
        ("[1]", "this is not JSON: Expecting '{'"),
        ('{"value":1} x', "something follows the object"),
        ('{"value":1,"value":2}', "'value' is no name of a field, or is there twice"),
        ('{1:1,"value":2}', "1 is no name of a field"),
        ('{"value":1,"topic":7}', "the topic is not a string"),
        ('{"value":1,"partition":"7"}', "the partition or the offset is not a whole number"),
        ('{"value":1,"timestamp":1.5}', "the timestamp is neither a whole number of milliseconds nor a time"),
        ('{"value":1,"timestamp":"tomorrow"}', "'tomorrow' is not a time"),
        ('{"value":1,"timestamp":"1700000000"}', "if it is seconds, write 1700000000000"),
        ('{"value":1,"headers":{}}', "the headers are not of the form"),
        ('{"value":1,"headers":[{"key":1}]}', "the headers are not of the form"),
        (r'{"value":"\ud800"}', "half of a surrogate pair"),
    ],
)
def test_what_is_no_row(line: str, text: str) -> None:
    with pytest.raises(InvalidRecordError) as failed:
        row(line)
    assert text in str(failed.value)


def test_envelopes() -> None:
    read = EnvelopeLines(NOW).row
    line = '{"topic":"t","partition":1,"offset":7,"value_base64":"/w==","headers":[{"key":"a","value":null}]}'
    assert read(line) == LineRow(None, b"\xff", [{"key": "a", "value": None}], "t", 1, NOW, 7)
    for line, text in (
        ('{"id":1}', "an envelope has no field 'id'"),
        ('{"value":"v","topic":1}', "topic must be a string"),
        ('{"value":"v","offset":true}', "offset must be a whole number"),
        ('{"value":"v","headers":[{"key_base64":"/w==","value":null}]}', "the name of a header is not UTF-8"),
    ):
        with pytest.raises(InvalidRecordError, match=text):
            read(line)


def test_batches() -> None:
    lines = pa.RecordBatch.from_pydict({"value": ['{"value":"a","partition":2}', "", " \r", '{"value":null}']})
    (found,) = envelope_batches(iter([lines]))
    assert found.schema.names == [column.split()[0] for column in SCHEMA.replace("key string, value", "").split(", ")]
    assert found.column("value").to_pylist() == [b"a", None]
    assert found.column("partition").to_pylist() == [2, None]
    (none,) = object_batches(NAMES)(iter([lines.slice(1, 2)]))
    assert none.num_rows == 0
    long = pa.RecordBatch.from_pydict({"value": ['{"key":"' + "x" * 100]})
    with pytest.raises(
        InvalidRecordError, match=r'a line is no record: this is not JSON: .*; the line is {"key":"x+…$'
    ):
        list(envelope_batches(iter([long])))
    large = pa.RecordBatch.from_pydict({"value": ['{"value":"a","partition":3000000000}']})
    with pytest.raises(InvalidRecordError, match="a line has a number that is too large"):
        list(envelope_batches(iter([large])))
