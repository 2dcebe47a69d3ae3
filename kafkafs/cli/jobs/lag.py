"""`kafkafs spark lag`: what groups have not consumed, counted with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import other_store_option, store_argument

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS: Final = (
    "group",
    "topic",
    "partition",
    "committedOffset",
    "committedTimestamp",
    "startOffset",
    "endOffset",
    "lag",
    "records",
    "firstTimestamp",
    "behindSeconds",
)
_OF_OTHER: Final = ("otherStartOffset", "otherEndOffset", "otherLag", "otherRecords", "missingRecords")
_OF_TIME: Final = ("timeOffset", "recordsBefore")


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs spark lag /var/lib/kafka --table\n"
    "  kafkafs spark lag /var/lib/kafka billing --against /tmp/store --at -1h"
)
@store_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@other_store_option("--against", "Compare with the logs of another store too: a backup, or another replica.")
@click.option("--at", "time", metavar="TIME", help="Count also what lies before a time: 2026-11-21T10:15, -1h, today.")
@job_options
@output_options
@click.pass_context
def lag(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    groups: tuple[str, ...],
    against: tuple[Path, ...] | None,
    time: str | None,
) -> None:
    """Count what the groups of a store, or some of them, have not consumed.

    There is a row for each partition with a committed offset or a member of the group. lag is endOffset less
    committedOffset, as kafka-consumer-groups prints it; records is how many records there really are from the committed
    offset on, firstTimestamp is the first one's, and behindSeconds how long ago that was. The groups are those in the
    store's partitions of __consumer_offsets.

    With --against there are the offsets of that store's logs, otherLag and otherRecords from the same committed offset
    on, and missingRecords: those of records that lie outside of its offsets. An otherLag below 0 says that the
    committed offset is beyond its end. With --at, timeOffset is the offset of the first record that is not before the
    time, and recordsBefore counts those of records that lie below it.

    Nothing is changed, and a broker may be running. Damage ends the job.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(
            lambda: jobs.lag(session.spark, store, groups or None, other=against, time=time), "counting"
        )
        columns = (*_COLUMNS, *(_OF_OTHER if against else ()), *(_OF_TIME if time else ()))
        write_rows(columns, rows, form)
        found = {row["group"] for row in rows}
        records = sum(row["records"] or 0 for row in rows)
        session.summarize(f"counted {len(found)} groups, {len(rows)} partitions, {records} records to consume")
