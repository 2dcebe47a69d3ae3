"""`kafkafs spark diff`: what two stores have not in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FOUND
from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options, write_detailed_rows
from kafkafs.cli.store_argument import other_store_argument, store_argument

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS: Final = (
    "topic",
    "partition",
    "onlyIn",
    "startOffset",
    "otherStartOffset",
    "endOffset",
    "otherEndOffset",
    "records",
    "otherRecords",
    "differing",
)
_DETAILS: Final = ("differences",)


@click.command(epilog="\b\nExample:\n  kafkafs spark diff /var/lib/kafka /tmp/store orders --table")
@store_argument
@other_store_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--first",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="How many differing offsets of each partition are named; JSON has room for them.",
)
@job_options
@output_options
@click.pass_context
def diff(
    ctx: click.Context, *, store: tuple[Path, ...], other: tuple[Path, ...], topics: tuple[str, ...], first: int
) -> None:
    """Compare two stores, or some topics of theirs, and print the partitions that differ.

    A partition differs if only one of the stores has it, if it begins or ends elsewhere, or if at an offset that lies
    between start and end in both there are two different records, or one: timestamps, keys, values and headers are
    compared, and null differs from empty. How batches are cut and compressed and where segments begin does not matter,
    and control records are not compared. Nothing is changed.

    Exit code 1 says that something differs.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(
            lambda: jobs.diff(session.spark, store, other, topics or None, differences_max=first), "comparing"
        )
        different = [row for row in rows if not row["isSame"]]
        write_detailed_rows(_COLUMNS, _DETAILS, different, form)
        records = sum(row["records"] for row in rows)
        session.summarize(f"compared {len(rows)} partitions, {records} records: {len(different)} partitions differ")
    if different:
        ctx.exit(EXIT_FOUND)
