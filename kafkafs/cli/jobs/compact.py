"""`kafkafs spark compact`: a new store with the latest record of each key, written with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.jobs.new_store_options import set_option, target_argument
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import store_argument

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = (
    "topic",
    "partition",
    "verdict",
    "beforeBytes",
    "afterBytes",
    "recordsRead",
    "recordsKept",
    "superseded",
    "keyless",
    "expired",
    "aborted",
    "markers",
    "firstDirtyOffset",
    "runs",
    "isApplied",
    "reason",
)


@click.command(epilog="\b\nExample:\n  kafkafs spark compact /var/lib/kafka /tmp/compacted customers --roll")
@store_argument
@target_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--roll", is_flag=True, help="Take in the active segments too, as if the logs had been rolled.")
@set_option
@job_options
@output_options
@click.pass_context
def compact(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    target: Path,
    topics: tuple[str, ...],
    roll: bool,
    settings: dict[str, str],
) -> None:
    """Write a store, or some of its topics, into a new store at TARGET: the latest record of each key stays.

    Records keep their offsets, and what is left is what `kafkafs compact` leaves, run until nothing is dirty. Logs that
    it does not compact are copied: those of topics whose settings do not say so, or are unknown, for which
    --set cleanup.policy=compact does. Nothing of the store changes, and a broker may be running.

    TARGET is empty or does not exist, and is there once all of it is. The same command continues an interrupted
    job. The bytes are those of a partition's whole log, the records those of what was compacted.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(
            lambda: jobs.compact(session.spark, store, target, topics or None, settings=settings, roll=roll),
            "compacting",
        )
        write_rows(_COLUMNS, rows, form)
        before_mb, after_mb = (sum(row[name] for row in rows) / 1e6 for name in ("beforeBytes", "afterBytes"))
        applied = sum(row["isApplied"] for row in rows)
        sizes = f"{before_mb:.1f} MB became {after_mb:.1f} MB"
        session.summarize(f"compacted {applied} of {len(rows)} partitions, {sizes}")
