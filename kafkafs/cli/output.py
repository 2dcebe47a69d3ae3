"""What listing commands share: the options `--json`, `--jsonl`, `--csv` and `--table`, and rows in each of them."""

from __future__ import annotations

import csv
import json
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

Command = TypeVar("Command", bound="Callable[..., Any]")

_CHOSEN = f"{__name__}.form"


class Form(Enum):
    """A form of output, by the option that asks for it."""

    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TABLE = "table"


_HELP = {
    Form.JSON: "Print one JSON array of objects.",
    Form.JSONL: "Print JSON objects, one a line.",
    Form.CSV: "Print comma-separated values below a line of names.",
    Form.TABLE: "Print columns for people to read.",
}


def output_options(command: Command) -> Command:
    """Give a command the four options; `chosen_form` says which was given."""
    return output_options_of(*Form)(command)


def output_options_of(*forms: Form) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of some forms."""

    def give(command: Command) -> Command:
        for form in reversed(forms):
            option = click.option(
                f"--{form.value}", is_flag=True, expose_value=False, callback=_chooses(form), help=_HELP[form]
            )
            command = option(command)
        return command

    return give


def chosen_form(ctx: click.Context) -> Form | None:
    """The form that was asked for; None if none was."""
    form: Form | None = ctx.meta.get(_CHOSEN)
    return form


def _chooses(form: Form) -> Callable[[click.Context, click.Parameter, bool], None]:
    def choose(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
        if not is_given:
            return
        before = ctx.meta.setdefault(_CHOSEN, form)
        if before is not form:
            raise click.UsageError(f"--{before.value} and --{form.value} exclude each other.", ctx)

    return choose


def write_rows(
    columns: Sequence[str], rows: Iterable[Mapping[str, object]], form: Form, stream: TextIO | None = None
) -> None:
    """Print rows that have a value or None for every column. Only a table waits for the last row."""
    stream = stream or sys.stdout
    if form is Form.JSON:
        _write_array(columns, rows, stream)
    elif form is Form.JSONL:
        for row in rows:
            stream.write(f"{_object(columns, row)}\n")
    elif form is Form.CSV:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(row[column]) for column in columns] for row in rows)
    else:
        _write_table(columns, rows, stream)


def write_detailed_rows(
    columns: Sequence[str], details: Sequence[str], rows: Iterable[Mapping[str, object]], form: Form
) -> None:
    """Print rows that have details as well, which only JSON has room for."""
    is_flat = form in (Form.CSV, Form.TABLE)
    write_rows(columns if is_flat else (*columns, *details), rows, form)


def _write_array(columns: Sequence[str], rows: Iterable[Mapping[str, object]], stream: TextIO) -> None:
    before = "[\n"
    for row in rows:
        stream.write(f"{before}{_object(columns, row)}")
        before = ",\n"
    stream.write("[]\n" if before == "[\n" else "\n]\n")


def _write_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], stream: TextIO) -> None:
    lines = [list(columns), *([_text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        stream.write(f"{'  '.join(padded).rstrip()}\n")


def json_line(value: Mapping[str, object]) -> str:
    """An object as JSON has it on one line, everywhere in kafkafs."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(columns: Sequence[str], row: Mapping[str, object]) -> str:
    return json_line({column: row[column] for column in columns})


def _text(value: object) -> str:
    """A value as a field: nothing for None, and JSON's words for what has words."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
