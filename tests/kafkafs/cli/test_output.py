"""The four forms in which listing commands print, and what they make of odd values."""

from __future__ import annotations

import csv
import io
import json
import os

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli.output import Form, chosen_form, json_line, output_options, write_rows
from kafkafs.quantities import size_text, span_text

COLUMNS = ("name", "count", "is", "none")
ROWS = [
    {"name": "a", "count": 1, "is": True, "none": None},
    {"name": 'é, "x"\n', "count": 100, "is": False, "none": None},
]


def printed(form: Form, rows: list[dict[str, object]]) -> str:
    stream = io.StringIO()
    write_rows(COLUMNS, rows, form, stream)
    return stream.getvalue()


@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS])
def test_json(rows: list[dict[str, object]]) -> None:
    assert json.loads(printed(Form.JSON, rows)) == rows
    lines = printed(Form.JSONL, rows).splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert all(list(json.loads(line)) == list(COLUMNS) for line in lines)


def test_csv() -> None:
    assert list(csv.reader(io.StringIO(printed(Form.CSV, ROWS), newline=""))) == [
        list(COLUMNS),
        ["a", "1", "true", ""],
        ['é, "x"\n', "100", "false", ""],
    ]


def test_table() -> None:
    assert printed(Form.TABLE, [{**row, "name": "orders"} for row in ROWS]) == (
        "name    count  is     none\norders      1  true\norders    100  false\n"
    )
    assert printed(Form.TABLE, []) == "name  count  is  none\n"


@click.command()
@output_options
@click.pass_context
def command(ctx: click.Context) -> None:
    """Say which form was chosen."""
    click.echo(repr(chosen_form(ctx)))


@pytest.mark.parametrize("form", Form)
def test_a_form_is_chosen(form: Form) -> None:
    assert CliRunner().invoke(command, [f"--{form.value}"]).stdout == f"{form!r}\n"


def test_no_form_or_two() -> None:
    assert CliRunner().invoke(command).stdout == "None\n"
    result = CliRunner().invoke(command, ["--csv", "--json"])
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


PEOPLE = [
    {
        "topic": "orders",
        "bytes": 1_732_000_000,
        "averageBatchBytes": 16_384.4,
        "lastTimestamp": 1_700_000_000_250,
        "ageSeconds": 5_400.2,
        "bytesPerSecond": 2_500_000.0,
        "share": 0.12345,
        "ratio": 1.5,
        "codecs": {"none": 3, "zstd": 12},
        "nothing": None,
    },
    {
        "topic": "\x1b[31m",
        "bytes": 999,
        "averageBatchBytes": 0.0,
        "lastTimestamp": -1,
        "ageSeconds": 0,
        "bytesPerSecond": 12.0,
        "share": 1.0,
        "ratio": 1234.5,
        "codecs": {},
        "nothing": None,
    },
]


def table_for(rows: list[dict[str, object]], width: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a table on a terminal of this width; None for a pipe."""
    stream = io.StringIO()
    monkeypatch.setattr("kafkafs.cli.table.terminal_width", lambda _: width)
    write_rows(tuple(rows[0]), rows, Form.TABLE, stream)
    return stream.getvalue().splitlines()


def test_a_table_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    names, first, second = table_for(PEOPLE, None, monkeypatch)
    assert names.split() == list(PEOPLE[0])
    assert first.split() == [
        *("orders", "1.73GB", "16.4kB", "2023-11-14T22:13:20.250Z", "1h30m", "2.5MB/s", "12.3%", "1.5"),
        "none:3,zstd:12",
    ]
    assert second.split() == ["\\u001B[31m", "999B", "0B", "-1", "0s", "12B/s", "100.0%", "1234"]
    assert {names.index("bytes") + 5, first.index("1.73GB") + 6, second.index("999B") + 4} == {names.index("bytes") + 5}


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no value is left out, and what is still too wide is printed row by row."""
    wide = table_for(PEOPLE, 200, monkeypatch)
    assert len(wide) == 3
    assert "nothing" not in wide[0]
    narrow = table_for(PEOPLE, 80, monkeypatch)
    assert narrow[:2] == ["topic              orders", "bytes              1.73GB"]
    assert narrow[narrow.index("") + 1] == "topic              \\u001B[31m"
    assert max(map(len, narrow)) <= 80


def test_a_table_is_straight_with_wide_and_combining_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, object]] = [{"group": "名前", "lag": 1}, {"group": "cafe\u0301", "lag": 2}]
    assert table_for(rows, None, monkeypatch) == ["group  lag", "名前     1", "cafe\u0301     2"]


def test_sizes_and_spans() -> None:
    sizes = (0, 999, 1000, 99_949, 99_950, 999_499, 999_500, 1_234_567, 2**63)
    assert list(map(size_text, sizes)) == [
        *("0 B", "999 B", "1 kB", "99.9 kB", "100 kB", "999 kB", "1 MB", "1.23 MB", "9.22 EB")
    ]
    spans = (0, 0.4, 59.6, 61, 3_600, 3_661, 86_399, 90_000)
    assert list(map(span_text, spans)) == ["0s", "0s", "1m", "1m1s", "1h", "1h1m", "23h59m", "1d1h"]


def test_json_is_utf_8_although_a_name_is_not() -> None:
    name = os.fsdecode(b"raw\xff\xc3\xb6")
    line = json_line({"path": name})
    assert line.encode() == b'{"path":"raw\\uDCFF\xc3\xb6"}'
    assert json.loads(line) == {"path": name}
