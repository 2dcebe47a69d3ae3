"""What commands print: rows in the form that an option asks for, the words for fields and numbers, and progress."""

from __future__ import annotations

import csv
import json
import sys
import time
from contextlib import contextmanager
from enum import Enum
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from kafkafs.cli.standard_streams import TerminalText
from kafkafs.cli.table import write_table
from kafkafs.plain_text import one_line
from kafkafs.quantities import size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from typing_extensions import Buffer

Command = TypeVar("Command", bound="Callable[..., Any]")

_CHOSEN: Final = f"{__name__}.form"
_LEFT_OUT: Final = frozenset({"device", "inode"})  # they tell files apart, and mean nothing to users
_PATIENCE_S: Final = 2.0  # shorter work says nothing
_INTERVAL_S: Final = 0.2
_BEAT_S: Final = 1.0
_FLUSH_S: Final = 0.5
_ERASE_LINE: Final = "\r\x1b[K"


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
    """Return an object as kafkafs prints JSON on one line; of all characters only control characters are escaped."""
    return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_line(text: str) -> None:
    """Print text at once that may have any characters, and end the line. A terminal gets no control characters."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


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


class Progress:
    """The progress of long work in one line, rewritten in place and erased at the end; nothing without a stream."""

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._begun = clock()
        self._due = self._begun + _PATIENCE_S
        self._is_visible = False
        self._lock = Lock()
        self._saying: Callable[[], str] | None = None  # what is being done, for `beating`
        self._rests_until = 0.0

    @classmethod
    def on_terminal(cls, *, is_erased_for_results: bool = False) -> Self:
        """Return progress that is shown on standard error if that is a terminal.

        It is not shown if the results go to a terminal too, unless it is erased before each of them.
        """
        is_free = is_erased_for_results or not sys.stdout.isatty()
        return cls(sys.stderr if sys.stderr.isatty() and is_free else None)

    @contextmanager
    def beating(self, what: str = "") -> Iterator[None]:
        """While a block runs, say again and again what is being done, and for how long: a step of it may take long.

        That is `what` at first, and then what was said last.
        """
        if self._stream is None:
            yield
            return
        if what:
            self._saying = lambda: what
        stopped = Event()
        heart = Thread(target=self._beat, args=(stopped,), daemon=True)
        heart.start()
        try:
            yield
        finally:
            stopped.set()
            heart.join()
            self.erase()

    def _beat(self, stopped: Event) -> None:
        while not stopped.wait(_BEAT_S):
            with self._lock:
                if self._saying is not None and self.is_due and self._clock() >= self._rests_until:
                    self._write(f"{self._saying()}, {span_text(self._clock() - self._begun)} so far")

    def show(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Say how much of it is done, how fast, and how long the rest takes at that rate, if a message is due."""
        self._say(partial(self._share, what, done_bytes, total_bytes))

    def _share(self, what: str, done_bytes: int, total_bytes: int) -> str:
        text = f"{what}: {100 * done_bytes // max(total_bytes, 1)} % of {size_text(total_bytes)}"
        if done_bytes:
            rate = done_bytes / (self._clock() - self._begun)
            left = span_text((total_bytes - done_bytes) / rate)
            text = f"{text}, {size_text(rate)}/s, {left} left"
        return text

    def show_count(self, what: str, number: int, total: int) -> None:
        """Say which of all is being done, if a message is due."""
        self._say(lambda: f"{what}: {number} of {total}")

    def show_number(self, what: str, number: int) -> None:
        """Say how many of it are done, where their count is unknown, if a message is due."""
        self._say(lambda: f"{what}: {number}")

    def _say(self, saying: Callable[[], str]) -> None:
        if self._stream is None:
            return
        with self._lock:
            self._saying = saying
            if self.is_due:
                self._write(saying())

    @property
    def is_due(self) -> bool:
        """Return True if a message is due, for callers whose message is costly."""
        return self._stream is not None and self._clock() >= self._due

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._due = self._clock() + _INTERVAL_S
        self._is_visible = True
        self._erase_line()
        self._stream.write(one_line(text))
        self._stream.flush()

    def erase(self) -> None:
        """Erase the line, for a result or at the end. While results come nothing is said in between by `beating`."""
        if self._stream is None:
            return
        with self._lock:
            if self._is_visible:
                self._erase_line()
                self._stream.flush()
                self._is_visible = False
            self._rests_until = self._clock() + _PATIENCE_S

    def _erase_line(self) -> None:
        assert self._stream is not None
        write = self._stream.write_controls if isinstance(self._stream, TerminalText) else self._stream.write
        write(_ERASE_LINE)
