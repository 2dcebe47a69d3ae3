"""The four forms in which listing commands print, and what they make of odd values."""

from __future__ import annotations

import csv
import io
import json

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli.output import Form, chosen_form, output_options, write_rows

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
        "name    count  is     none\norders  1      true\norders  100    false\n"
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
