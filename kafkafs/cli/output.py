"""What commands print: rows in the form that an option asks for, the words for fields and numbers."""

from __future__ import annotations

import csv
import json
import sys
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkafs.cli.table import write_table
from kafkafs.plain_text import one_line_of_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from typing_extensions import Buffer

    from kafkafs.cli.progress import Progress
    from storage.record import Record

Command = TypeVar("Command", bound="Callable[..., Any]")

_CHOSEN: Final = f"{__name__}.form"
_LEFT_OUT: Final = frozenset({"device", "inode"})  # they tell files apart, and mean nothing to users
_FLUSH_S: Final = 0.5
_NEWLINE: Final = "\n"


class Form(Enum):
    """A form of output, by the option that asks for it."""

    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TABLE = "table"


_HELP: Final = {
    Form.JSON: "Print one JSON array of objects.",
    Form.JSONL: "Print JSON objects, one a line.",
    Form.CSV: "Print comma-separated values below a line of names.",
    Form.TABLE: "Print columns for people to read.",
}


def output_options(command: Command) -> Command:
    """Give a command all four options; `chosen_form` returns which was given."""
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
    """Return the form that was asked for; None if none was."""
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
    if form in (Form.JSON, Form.JSONL):
        write_objects((_object(columns, row) for row in rows), form, stream)
    elif form is Form.CSV:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(row[column]) for column in columns] for row in rows)
    else:
        write_table(columns, rows, stream)


def write_detailed_rows(
    columns: Sequence[str], details: Sequence[str], rows: Iterable[Mapping[str, object]], form: Form
) -> None:
    """Print rows with details, which only JSON has room for."""
    is_flat = form in (Form.CSV, Form.TABLE)
    write_rows(columns if is_flat else (*columns, *details), rows, form)


def write_objects(objects: Iterable[str], form: Form, stream: TextIO | None = None) -> None:
    """Print JSON objects of any fields, as one array or one a line."""
    stream = stream or sys.stdout
    if form is Form.JSONL:
        stream.writelines(f"{each}\n" for each in objects)
        return
    array = JsonArray(stream)
    for each in objects:
        array.add(each)
    array.end()


class JsonArray:
    """An array of objects that come one by one, each on a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._before = "[\n"

    def add(self, line: str) -> None:
        """Print an object, without the end of its line."""
        self._stream.write(f"{self._before}{line}")
        self._before = ",\n"

    def end(self) -> None:
        """Print the end of the array."""
        self._stream.write("[]\n" if self._before == "[\n" else "\n]\n")


def json_line(value: Mapping[str, object]) -> str:
    """Return an object as kafkafs prints JSON on one line: control characters are escaped, and what is no UTF-8."""
    return one_line_of_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_line(text: str) -> None:
    """Print text at once that may have any characters, and end the line. A terminal gets no control characters."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def line_of_json(line: Callable[[Record], bytes]) -> Callable[[Record], bytes]:
    """Return what makes a record's line of JSON for the standard output: a terminal gets no control characters."""
    if not sys.stdout.isatty():
        return line
    return lambda record: f"{one_line_of_json(line(record).decode().removesuffix(_NEWLINE))}{_NEWLINE}".encode()


def write_pieces(pieces: Iterable[Buffer], progress: Progress | None = None) -> None:
    """Print bytes as they are, in pieces of which none waits long for others, which may be slow to make."""
    output = sys.stdout.buffer
    due_s = time.monotonic() + _FLUSH_S
    for data in pieces:
        if progress is not None:
            progress.erase()
        output.write(data)
        if (now_s := time.monotonic()) >= due_s:
            output.flush()
            due_s = now_s + _FLUSH_S
    output.flush()


def _object(columns: Sequence[str], row: Mapping[str, object]) -> str:
    return json_line({column: row[column] for column in columns})


def _text(value: object) -> str:
    """Return a value as a field: empty for None, a string as it is, and anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def counted(number: int, what: str) -> str:
    """Return a number of things, for people."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def row_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan or a report, under kafkafs' names of fields."""
    return {camel(key): _field(value) for key, value in said.items() if key not in _LEFT_OUT}


def camel(name: str) -> str:
    """Return a field's name as the envelope has it; a size in bytes is called `bytes`."""
    first, *others = name.removeprefix("size_").split("_")
    return first + "".join(word.capitalize() for word in others)


def _field(value: object) -> object:
    if isinstance(value, dict):
        return row_of(value)
    return [_field(each) for each in value] if isinstance(value, list | tuple) else value
