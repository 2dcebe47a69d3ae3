"""`kafkafs spark skew`: how evenly records lie in partitions, and which keys have most of them."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import store_argument

if TYPE_CHECKING:
    from pathlib import Path


@click.command(epilog="\b\nExample:\n  kafkafs spark skew /var/lib/kafka orders --top 3 --table")
@store_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="How many keys of each topic are named.",
)
@job_options
@output_options
@click.pass_context
def skew(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], top: int) -> None:
    """Say how evenly the records of each topic of a store, or of some, lie in its partitions, and name its hot keys.

    A row's kind is topic, partition or key. bytes is what batches take on disk, dataBytes what keys and values would
    uncompressed. share and dataShare are parts of the topic's; ratio is how a partition's records compare with the mean
    of the topic's partitions, of a topic that of its largest one, and bytesRatio the same of bytes. Without key and
    key_base64 a key is null. It has the given number of records, or up to recordsOver less where a topic has too many
    keys to count them all. Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs
        from kafkafs.spark.jobs.skew import SCHEMA

        rows = session.rows(lambda: jobs.skew(session.spark, store, topics or None, top), "weighing")
        rows.sort(key=itemgetter("topic"))  # of each topic they come in order
        write_rows(SCHEMA.names, rows, form)
        kinds = [row["kind"] for row in rows]
        session.summarize(f"weighed {kinds.count('topic')} topics, {kinds.count('partition')} partitions")
