"""`kafkafs spark gaps`: what is out of order in the logs of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FOUND
from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import store_argument

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

_COLUMNS: Final = (
    "topic",
    "partition",
    "kind",
    "firstOffset",
    "lastOffset",
    "extent",
    "regressionMs",
    "producerId",
    "producerEpoch",
    "sequence",
    "expectedSequence",
    "log",
    "position",
    "reason",
    "isCompacted",
)
_AS_IT_SHOULD_BE: Final = "isCompacted AND kind IN ('hole', 'sequence_gap')"


@click.command(epilog="\b\nExample:\n  kafkafs spark gaps /var/lib/kafka orders --threshold-ms 60000 --table")
@store_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--threshold-ms",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="By how much a record may be older than the one before it.",
)
@click.option("--compacted", is_flag=True, help="Print also the holes and sequence gaps that compaction leaves.")
@job_options
@output_options
@click.pass_context
def gaps(
    ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], threshold_ms: int, compacted: bool
) -> None:
    """Find what is out of order in each partition of a store, or of some of its topics.

    That is a hole where offsets are missing, a duplicate where the log goes back to offsets that it has had, a
    time_regression where producers gave a record an earlier time than the one before it (one row for a partition, with
    the largest), a sequence_gap or sequence_duplicate where a producer's batch does not follow on its last one, and
    damage. Compaction leaves holes and sequence gaps, which are not counted as such. Nothing is changed, and a broker
    may be running.

    Exit code 1 says that something is out of order.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        def found() -> DataFrame:
            frame = jobs.gaps(session.spark, store, topics or None, threshold_ms=threshold_ms)
            wanted = frame if compacted else frame.where(f"NOT ({_AS_IT_SHOULD_BE})")
            return wanted.selectExpr("*", f"{_AS_IT_SHOULD_BE} AS isInOrder").orderBy(
                "topic", "partition", "firstOffset"
            )

        rows = session.rows(found, "looking for gaps")
        write_rows(_COLUMNS, rows, form)
        gaps_found = [row for row in rows if not row["isInOrder"]]
        partitions = {(row["topic"], row["partition"]) for row in gaps_found}
        session.summarize(f"found {len(gaps_found)} gaps in {len(partitions)} partitions")
    if gaps_found:
        ctx.exit(EXIT_FOUND)
