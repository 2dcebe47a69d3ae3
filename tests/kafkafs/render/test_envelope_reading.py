"""Which lines are envelopes, what they mean, and what is said of those that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.envelope_reading import rows_of_envelopes
from storage.errors import InvalidRecordError

NOW = 1_700_000_000_000
NO_TIME = "timestamp must be a whole number of milliseconds since 1970, or -1 for none"


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"value":"v"}', (NOW, None, b"v", [])),
        (b'{"value":null}', (NOW, None, None, [])),
        (b'{"value":""}', (NOW, None, b"", [])),
        (b' {"value" : "v" , "key":"k"}\r', (NOW, b"k", b"v", [])),
        (b'{"value_base64":"/w==","key_base64":""}', (NOW, b"", b"\xff", [])),
        (b'{"value":"v","timestamp":0,"timestampType":"LogAppendTime"}', (0, None, b"v", [])),
        (b'{"value":"v","timestamp":-1,"timestampType":"NoTimestampType"}', (-1, None, b"v", [])),
        (b'{"value":"v","timestamp":0,"batch":{"codec":"gzip"}}', (0, None, b"v", [])),
        (b'{"value":"v","timestamp":9223372036854775807}', (2**63 - 1, None, b"v", [])),
        (b'{"topic":1,"partition":{"a":1,"a":2},"offset":null,"value":"v"}', (NOW, None, b"v", [])),
        (rb'{"value":"\u00fc\ud83d\ude00\u0000"}', (NOW, None, "ü\U0001f600\0".encode(), [])),
        ('{"value":"ü\u2028"}'.encode(), (NOW, None, "ü\u2028".encode(), [])),
        (
            b'{"value":"v","headers":[{"key":"a","value":null},{"key_base64":"/w==","value_base64":"/w=="}]}',
            (NOW, None, b"v", [("a", None), ("\udcff", b"\xff")]),
        ),
    ],
)
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_envelope_is_a_row(line: bytes, row: tuple[Any, ...], end: bytes) -> None:
    assert rows_of_envelopes(line + end, timestamp_ms=NOW) == [row]


REFUSED = [
    (b"", "this is not JSON: Expecting value (character 1)"),
    (b'{"value":"v"', "this is not JSON: Expecting ',' delimiter (character 13)"),
    (b'{"value":"v"} {}', "this is not JSON: Extra data (character 15)"),
    (b'{"value":"a\tb"}', "this is not JSON: Invalid control character at (character 12)"),
    (b'{"value":"\xff"}', "byte 11 is not UTF-8, which all JSON is"),
    (b"[" * 100_000, "this JSON is nested too deeply, or has a number of too many digits"),
    (b"1" * 100_000, "this JSON is nested too deeply, or has a number of too many digits"),
    (b'"v"', "an envelope must be a JSON object"),
    (b"[]", "an envelope must be a JSON object"),
    (b"{}", "value is missing, and so is value_base64"),
    (b'{"key":"k"}', "value is missing, and so is value_base64"),
    (b'{"value":"v","value":"w"}', "an envelope has a field twice"),
    (b'{"value":"v","value_base64":"/w=="}', "value and value_base64 exclude each other"),
    (b'{"value":null,"value_base64":"/w=="}', "value and value_base64 exclude each other"),
    (b'{"value":"v","key":null,"key_base64":""}', "key and key_base64 exclude each other"),
    (b'{"value":{"a":1}}', "value must be a string or null"),
    (b'{"value":1}', "value must be a string or null"),
    (b'{"value":"v","key":false}', "key must be a string or null"),
    (b'{"value_base64":null}', "value_base64 must be a string"),
    (b'{"value_base64":"/w"}', "value_base64 is not base64"),
    (b'{"value_base64":"/w==\\n"}', "value_base64 is not base64"),
    ('{"value_base64":"ü"}'.encode(), "value_base64 is not base64"),
    (rb'{"value":"\ud800"}', "value has half of a surrogate pair, which is no text"),
    (
        b'{"value":"v","timestamp":true}',
        NO_TIME,
    ),
    (
        b'{"value":"v","timestamp":1.5}',
        NO_TIME,
    ),
    (
        b'{"value":"v","timestamp":null}',
        NO_TIME,
    ),
    (
        b'{"value":"v","timestamp":-2}',
        NO_TIME,
    ),
    (
        b'{"value":"v","timestamp":9223372036854775808}',
        NO_TIME,
    ),
    (
        b'{"value":"v","timestampType":["CreateTime"]}',
        "timestampType must be one of NoTimestampType, CreateTime, LogAppendTime",
    ),
    (b'{"value":"v","headers":null}', "headers must be an array"),
    (b'{"value":"v","headers":{}}', "headers must be an array"),
    (b'{"value":"v","headers":[1]}', "a header must be a JSON object"),
    (b'{"value":"v","headers":[{"key":"a"}]}', "value is missing, and so is value_base64"),
    (b'{"value":"v","headers":[{"value":"a"}]}', "key is missing, and so is key_base64"),
    (b'{"value":"v","headers":[{"key":null,"value":"a"}]}', "a header's key must not be null"),
    (
        b'{"value":"v","headers":[{"key":"a","value":"b","x":1}]}',
        "a header has no field 'x'; it has key, key_base64, value, value_base64",
    ),
    (
        b'{"value":"v","Key":"k"}',
        (
            "an envelope has no field 'Key'; it has batch, headers, key, key_base64, offset, partition, timestamp, "
            "timestampType, topic, value, value_base64"
        ),
    ),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED)
def test_what_is_no_envelope_is_said_with_its_line(line: bytes, reason: str) -> None:
    for before in range(3):
        with pytest.raises(InvalidRecordError) as caught:
            rows_of_envelopes(b'{"value":"v"}\n' * before + line + b'\n{"value":"v"}\n', timestamp_ms=NOW)
        assert str(caught.value) == f"line {before + 1}: {reason}"


@pytest.mark.property
@given(st.one_of(st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)))
def test_every_input_is_a_row_or_refused(lines: bytes) -> None:
    try:
        rows = rows_of_envelopes(lines, timestamp_ms=NOW)
    except InvalidRecordError:
        return
    assert len(rows) == max(lines.removesuffix(b"\n").count(b"\n") + 1, 1)
