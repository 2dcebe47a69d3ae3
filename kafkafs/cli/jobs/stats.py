"""`kafkafs spark stats`: what a store holds, in numbers, counted with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.stats import COLUMNS
from kafkafs.cli.store_argument import store_argument

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = (*COLUMNS, "averageBatchBytes", "largestBatchBytes", "recordsPerSecond", "bytesPerSecond")

_DAMAGED = "what lies after damage was not counted; `kafkafs verify` lists the damage"


@click.command(epilog="\b\nExample:\n  kafkafs spark stats /var/lib/kafka orders --table")
@store_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@job_options
@output_options
@click.pass_context
def stats(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Count what each partition of a store, or of some of its topics, holds, as `kafkafs stats` does.

    In addition there are the sizes of batches, and the records and bytes for each second between the first and the last
    timestamp. Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(lambda: jobs.stats(session.spark, store, topics or None), "counting")
        write_rows(_COLUMNS, rows, form)
        records, size_bytes, damages = (sum(row[name] for row in rows) for name in ("records", "bytes", "damages"))
        session.summarize(f"counted {len(rows)} partitions, {records} records, {size_bytes / 1e6:.1f} MB")
        if damages:
            click.echo(f"kafkafs: {_DAMAGED}", err=True)
