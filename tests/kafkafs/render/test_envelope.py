"""Envelopes: what other readers of JSON find in them, and that reading them back gives the same records."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkafs.render.envelope import Envelope
from kafkafs.render.envelope_reading import rows_of_envelopes
from storage.errors import CorruptBatchError
from storage.record import RecordBatch, batches_of_rows, read_batches
from storage.testing import strategies
from storage.testing.codec import OracleRecord, encode_entry, entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from storage.record import Record
    from storage.record.encoding import Row

T = 1_700_000_000_000
ORDERS = Envelope("orders", 3)
DATASETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-compaction", "kafka-3.9-killed")

any_bytes = st.one_of(strategies.small_bytes, st.binary(), st.text().map(str.encode))
header_names = st.one_of(strategies.header_keys, any_bytes.map(lambda name: name.decode("utf-8", "surrogateescape")))
rows = st.tuples(
    strategies.timestamps,
    st.none() | any_bytes,
    st.none() | any_bytes,
    st.lists(st.tuples(header_names, st.none() | any_bytes), max_size=4).map(tuple),
)


def records_of(*rows: Row) -> list[Record]:
    return [record for data in batches_of_rows(rows) for batch in read_batches(data) for record in batch.records()]


def row_of(record: Record) -> Row:
    return record.timestamp, record.key, record.value, record.headers


def tidy(row: Row) -> Row:
    """The row as a record gives it back: a name that can be text is that text."""
    timestamp, key, value, headers = row
    names = [name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") for name, _ in headers]
    return timestamp, key, value, tuple(zip(names, (value for _, value in headers), strict=True))


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            (T, b"k", b'{"id":1}', ()),
            r'"timestamp":1700000000000,"timestampType":"CreateTime","key":"k","value":"{\"id\":1}","headers":[]',
        ),
        ((-1, None, None, ()), '"timestamp":-1,"timestampType":"CreateTime","key":null,"value":null,"headers":[]'),
        ((0, b"", b"", ()), '"timestamp":0,"timestampType":"CreateTime","key":"","value":"","headers":[]'),
        (
            (0, b"\xff", b"a\xed\xa0\x80", ()),
            '"timestamp":0,"timestampType":"CreateTime","key_base64":"/w==","value_base64":"Ye2ggA==","headers":[]',
        ),
        (
            (0, None, "Zürich \u2028\x7f\0\n\t/\\".encode(), ()),
            (
                '"timestamp":0,"timestampType":"CreateTime","key":null,"value":"Zürich \u2028\x7f\\u0000\\n\\t/\\\\",'
                '"headers":[]'
            ),
        ),
        (
            (0, None, None, (("a", b"1"), ("a", None), ("é", b""), ("\udcff", b"\xff"))),
            (
                '"timestamp":0,"timestampType":"CreateTime","key":null,"value":null,"headers":[{"key":"a","value":"1"},'
                '{"key":"a","value":null},{"key":"é","value":""},{"key_base64":"/w==","value_base64":"/w=="}]'
            ),
        ),
    ],
)
def test_a_line_is_this(row: Row, line: str) -> None:
    (record,) = records_of(row)
    assert ORDERS.line(record).decode() == f'{{"topic":"orders","partition":3,"offset":0,{line}}}\n'


def test_records_of_old_versions_have_their_own_kind_of_time() -> None:
    old = encode_entry(entry_of(OracleRecord(offset=7, value=b"v"), 0))
    appended = entry_of(OracleRecord(offset=8, timestamp=5, value=b"v"), 1, log_append_time=True)
    records = [record for batch in read_batches(old + encode_entry(appended)) for record in batch.records()]
    found = [json.loads(ORDERS.line(record)) for record in records]
    assert [(fields["offset"], fields["timestamp"], fields["timestampType"]) for fields in found] == [
        (7, -1, "NoTimestampType"),
        (8, 5, "LogAppendTime"),
    ]


def test_indented_is_for_people() -> None:
    (record,) = records_of((T, b"k", "ü".encode(), (("h", None),)))
    assert ORDERS.indented(record).decode().splitlines() == [
        "{",
        '  "topic": "orders",',
        '  "partition": 3,',
        '  "offset": 0,',
        f'  "timestamp": {T},',
        '  "timestampType": "CreateTime",',
        '  "key": "k",',
        '  "value": "ü",',
        '  "headers": [',
        "    {",
        '      "key": "h",',
        '      "value": null',
        "    }",
        "  ]",
        "}",
    ]


@pytest.mark.property
@given(rows)
def test_another_reader_finds_the_record(row: Row) -> None:
    (record,) = records_of(row)
    line = ORDERS.line(record)
    fields = json.loads(line)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert line.decode() == json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
    assert json.loads(ORDERS.indented(record)) == fields
    assert [name.removesuffix("_base64") for name in fields] == [
        *("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
    ]
    headers = [(bytes_of(header, "key"), bytes_of(header, "value")) for header in fields["headers"]]
    assert (fields["timestamp"], bytes_of(fields, "key"), bytes_of(fields, "value")) == row[:3]
    assert headers == [(name.encode("utf-8", "surrogateescape"), value) for name, value in row[3]]


def bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    if name not in fields:
        data = base64.b64decode(fields[f"{name}_base64"])
        with pytest.raises(UnicodeDecodeError):
            data.decode()
        return data
    text = fields[name]
    return None if text is None else text.encode()


@pytest.mark.property
@given(st.lists(rows, min_size=1, max_size=8))
@example([(0, b"", b"", ()), (0, None, None, ())])
def test_what_is_read_back_is_what_was_there(written: list[Row]) -> None:
    lines = b"".join(map(ORDERS.line, records_of(*written)))
    read = rows_of_envelopes(lines, timestamp_ms=T)
    assert [tidy(row) for row in read] == [tidy(row) for row in written]
    assert [row_of(record) for record in records_of(*read)] == [row_of(record) for record in records_of(*written)]


@pytest.mark.golden
@pytest.mark.parametrize("dataset", DATASETS)
def test_records_of_real_brokers_come_back(dataset: str, datasets: Callable[[str], Path]) -> None:
    seen = 0
    for log in sorted(datasets(dataset).rglob("*.log")):
        for batch in batches_in(log):
            if isinstance(batch, RecordBatch) and batch.is_control:
                continue
            records = list(batch.records())
            lines = b"".join(map(ORDERS.line, records))
            if records:
                assert [tidy(row) for row in rows_of_envelopes(lines, timestamp_ms=0)] == list(map(row_of, records))
            seen += len(records)
    assert seen > 1000


def batches_in(log: Path) -> Sequence[Any]:
    found = []
    try:
        for batch in read_batches(log.read_bytes()):
            batch.check_crc()
            found.append(batch)
    except CorruptBatchError:
        pass  # some logs of these sets end within damage
    return found


@pytest.mark.golden
def test_jq_reads_what_is_written() -> None:
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("jq is not installed")
    texts = [
        "",
        "plain",
        'a "quoted" \\ text',
        "tab\tand\nnewline",
        "Zürich €\U0001f600",
        "\u2028\u2029",
        "\x1b[1m\x7f",
    ]
    written: list[Row] = [(T + index, None, text.encode(), (("h", b"\xff"),)) for index, text in enumerate(texts)]
    lines = b"".join(map(ORDERS.line, records_of(*written)))
    query = "[.offset, .timestamp, .value, (.value | @base64), (.headers[0].value_base64 | @base64d | length)]"
    done = subprocess.run([jq, "-c", query], input=lines, capture_output=True, check=True)
    assert [json.loads(line)[:4] for line in done.stdout.splitlines()] == [
        [index, T + index, text, base64.b64encode(text.encode()).decode()] for index, text in enumerate(texts)
    ]
    # Passed through jq, envelopes are still those of the same records.
    through = subprocess.run([jq, "-c", "."], input=lines, capture_output=True, check=True).stdout
    assert [tidy(row) for row in rows_of_envelopes(through, timestamp_ms=0)] == [tidy(row) for row in written]


@pytest.mark.property
@given(rows, st.none() | st.dictionaries(st.text(), st.integers() | st.dictionaries(st.text(), st.text())))
def test_indented_is_the_line_as_python_indents_it(row: Row, batch: dict[str, object] | None) -> None:
    (record,) = records_of(row)
    fields = json.loads(ORDERS.line(record)) | ({} if batch is None else {"batch": batch})
    expected = json.dumps(fields, ensure_ascii=False, indent=2) + "\n"
    assert ORDERS.indented(record, batch).decode() == expected
