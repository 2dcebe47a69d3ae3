"""`kafkafs report`: writes what is to be known of a store into one HTML page, or prints it as data."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkafs import __version__
from kafkafs.cli.output import (
    Form,
    chosen_form,
    counted,
    json_line,
    output_options_of,
    print_line,
    row_of,
    write_objects,
    write_pieces,
)
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    broker_settings,
    check_file_outside,
    follow_links_option,
    opened_store,
    server_properties_option,
    store_argument,
    store_files,
)
from kafkafs.find.partitions import matching_partitions
from kafkafs.quantities import size_text
from kafkafs.report import VERIFYING, Extent, Gathering, page_of
from storage.clock import Clock
from storage.files import NamedFiles, replace_file
from storage.verify import Severity

if TYPE_CHECKING:
    from kafkafs.report import Report

_STANDARD_OUTPUT: Final = "-"


@click.command(
    epilog="\b\nExamples:\n  kafkafs report /var/lib/kafka -o report.html\n"
    "  kafkafs report /var/lib/kafka orders --full -o orders.html\n"
    "  kafkafs report /var/lib/kafka --jsonl | jq 'select(.row == \"finding\")'"
)
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC[/PARTITION]]...")
@click.option("-o", "--output", metavar="FILE", help="The file of the page, which is replaced; - is standard output.")
@click.option("--full", "is_full", is_flag=True, help="Read every log whole: nothing is sampled, everything verified.")
@click.option("--no-keys", is_flag=True, help="Leave out the keys of records, for a page that others get.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="How many processes verify with --full; by default as many as there are processors.",
)
@server_properties_option
@output_options_of(Form.JSON, Form.JSONL)
@click.pass_context
def report(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    output: str | None,
    is_full: bool,
    no_keys: bool,
    jobs: int,
    server_properties: Path | None,
) -> None:
    """Write one page on a store that any browser shows, and that can be sent by mail.

    It has sizes, growth and rates, a map of segments with what becomes of each next, codecs and what they save, the
    keys that most records have, groups and their lag, open transactions, and what is wrong, with next steps. It needs
    no network and no other file. TOPIC and PARTITION may be patterns, such as 'ord*' or 'orders/[0-3]'.

    Only headers, indexes and some batches are read, and the page says what is sampled; --full reads everything. Nothing
    is changed, and a broker may be running. A partition that cannot be read is a row that says why. With --json or
    --jsonl the same is printed as objects, each with its `row`: store, logDir, topic, partition and so on.
    """
    form = chosen_form(ctx)
    if (output is None) == (form is None):
        raise click.UsageError("name the file of the page with -o FILE, or ask for --json or --jsonl, not both", ctx)
    if output is not None and output != _STANDARD_OUTPUT:
        check_file_outside(Path(output), store, "-o")
    extent = Extent(is_full=is_full, has_keys=not no_keys, jobs=jobs)
    found = _gathered(store, topics, extent, server_properties)
    if form is not None:
        write_objects((json_line(row_of(row)) for row in found.rows()), form)
    elif output == _STANDARD_OUTPUT:
        sys.stdout.flush()
        write_pieces([page_of(found)])
    else:
        assert output is not None
        page = page_of(found)
        _write(Path(output), page)
        print_line(f"{output}: {_summary(found)}, {size_text(len(page))}")


def _write(path: Path, page: bytes) -> None:
    """Replace a file by the page, or write the page into a pipe or a device, such as /dev/null."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(page)
    else:
        replace_file(NamedFiles(), path, page)


def _gathered(
    store: tuple[Path, ...], topics: tuple[str, ...], extent: Extent, server_properties: Path | None
) -> Report:
    progress = Progress.on_terminal(is_erased_for_results=True)

    def announce(what: str, done: int, total: int) -> None:
        if what == VERIFYING:
            progress.show(what, done, total)
        else:
            progress.show_count(what, done, total)

    settings = broker_settings(server_properties)
    with progress.beating("opening the store"), opened_store(store, server_properties) as opened:
        chosen = matching_partitions(opened, topics)
        gathering = Gathering(opened, store_files(), Clock(), extent, announce, broker_settings=settings)
        named = sorted({topic for topic, _ in chosen}) if topics else ()
        found = gathering.report(chosen, named, __version__)
    progress.erase()
    return found


def _summary(found: Report) -> str:
    unread = sum(each.failures for each in found.topics)
    damaged = sum(each.severity == Severity.DAMAGE for each in found.findings)
    parts = [counted(len(found.partitions), "partition"), *([f"{unread} of them not read"] if unread else [])]
    return ", ".join([*parts, counted(damaged, "finding") + " of damage"])
