"""`kafkafs top`: shows how a store grows, live on a terminal, or in lines."""

from __future__ import annotations

import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FAILED, say
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import Form, chosen_form, output_options, print_line, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import follow_links_option, opened_store, server_properties_option, store_argument
from kafkafs.cli.table import terminal_width
from kafkafs.find.partitions import matching_partitions
from kafkafs.locator.times import Instant
from kafkafs.top.pages import Pages
from kafkafs.top.reading import Reader
from kafkafs.top.rows import COLUMNS, PARTITION_COLUMNS, Key, partition_rows, sorted_rows, topic_rows, total_row
from kafkafs.top.screen import run_screen, why_not_drawn
from kafkafs.top.table import OF_PARTITIONS, OF_TOPICS, summary_lines, table_lines
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkafs.top.reading import Reading
    from kafkafs.top.rows import Row

_INTERVAL_S: Final = 2.0


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs top /var/lib/kafka --once --sort size --first 10\n"
    "  kafkafs top /var/lib/kafka 'ord*' --partitions -n 3 --interval 1 --jsonl"
)
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC[/PARTITION]]...")
@click.option("--partitions", is_flag=True, help="A row for each partition, in place of one for each topic.")
@click.option(
    "--sort",
    "key",
    type=click.Choice([each.value for each in Key]),
    default=Key.RATE.value,
    show_default=True,
    help="Sort by bytes a second, records a second, size, lag, age of the oldest record, what is freed first, or name.",
)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Print only the first N rows of each look.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=_INTERVAL_S,
    show_default=True,
    metavar="SECONDS",
    help="Look so often; less often where a look takes long.",
)
@click.option("-n", "--count", "looks", type=click.IntRange(min=1), metavar="N", help="Print N looks, and end.")
@click.option("--once", is_flag=True, help="Print one look, as -n 1 does.")
@server_properties_option
@output_options
@click.pass_context
def top(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    partitions: bool,
    key: str,
    first: int | None,
    interval: float,
    looks: int | None,
    once: bool,
    server_properties: Path | None,
) -> None:
    """Show live which topics of a store grow, how large they are, how far groups are behind, and what is freed next.

    TOPIC and PARTITION may be patterns, such as 'ord*' or 'orders/[0-3]'. Nothing is changed, and a broker or a mount
    may be running. On a terminal the keys are named at ? and q leaves. In a pipe, and with -n, --once or a form of
    output, each look is printed.

    A rate is what was appended between two looks, so the first is printed after one interval. LAG is that of the group
    that is furthest behind, OLDEST the age of the oldest batch. FREED NEXT is what retention deletes first, and when:
    as time passes or, by retention.bytes, as the log grows on like this. It is a question mark where the topic's
    settings are unknown.

    Exit code 3 means that a partition could not be read at the last of N looks.
    """
    form, looks, clock = chosen_form(ctx), 1 if once else looks, Clock()
    with opened_store(store, server_properties) as opened:
        matching_partitions(opened, topics)  # which refuses a name that there is not
        reader = Reader(opened, clock, topics)
        if form is None and looks is None and _can_draw():
            pages = Pages(",".join(map(str, store)), interval, Key(key), lists_partitions=partitions)
            with finishing() as change, change.waiting():  # a signal ends it at once, and the terminal is restored
                run_screen(reader, clock, pages)
            return
        printer = _Printer(reader, Key(key), first, lists_partitions=partitions)
        printer.write(form, printer.looks(interval, looks))
        if looks is not None and printer.failed:
            raise SystemExit(EXIT_FAILED)


def _can_draw() -> bool:
    """Return True if a user is at a terminal on which a screen can be drawn; say why, where it cannot."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    reason = why_not_drawn()
    if reason is not None:
        say(f"{reason}: each look is printed")
    return reason is None


class _Printer:
    """Prints looks. `failed` is how many partitions had an error at the last one."""

    def __init__(self, reader: Reader, key: Key, first: int | None, *, lists_partitions: bool) -> None:
        self.failed = 0
        self._reader = reader
        self._key = key
        self._first = first
        self._lists_partitions = lists_partitions

    def looks(self, interval_s: float, number: int | None) -> Iterator[Reading]:
        """Look so often, or for ever; the first look of all serves to compare the next one with it."""
        self._read()
        for _ in range(number) if number is not None else count():
            time.sleep(interval_s)
            reading = self._read()
            assert reading is not None
            self.failed = sum(each.error is not None for each in reading.partitions)
            yield reading

    def _read(self) -> Reading | None:
        """Look, and say so where a look takes long."""
        with Progress.on_terminal().beating("looking at the logs"):
            return self._reader.read()

    def write(self, form: Form | None, looks: Iterator[Reading]) -> None:
        """Print the looks as they come."""
        columns = PARTITION_COLUMNS if self._lists_partitions else COLUMNS
        if form is None:
            for number, reading in enumerate(looks):
                print_line(("\n" if number else "") + "\n".join(self._lines(reading)))
        elif form is Form.TABLE:
            for reading in looks:
                write_rows(columns, [row.fields() for row in self._rows(reading)], form)
                sys.stdout.flush()
        else:
            write_rows(columns, self._fields(looks), form)

    def _fields(self, looks: Iterator[Reading]) -> Iterator[Mapping[str, object]]:
        for reading in looks:
            for shortcoming in reading.shortcomings:
                say(shortcoming)
            yield from (row.fields() for row in self._rows(reading))
            sys.stdout.flush()

    def _rows(self, reading: Reading) -> list[Row]:
        rows = partition_rows(reading) if self._lists_partitions else topic_rows(reading)
        return sorted_rows(rows, self._key)[: self._first]

    def _lines(self, reading: Reading) -> Iterator[str]:
        width = terminal_width(sys.stdout)
        figures, note = summary_lines(reading, total_row(reading))
        yield f"{Instant(reading.now_ms)}  {figures.text}"
        if note.text:
            yield note.text
        columns = OF_PARTITIONS if self._lists_partitions else OF_TOPICS
        yield from (line.text.rstrip() for line in table_lines(self._rows(reading), columns, width))
