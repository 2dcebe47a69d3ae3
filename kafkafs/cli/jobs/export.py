"""`kafkafs spark export`: a store as Parquet, written with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.output import Form, chosen_form, output_options_of, write_rows
from kafkafs.cli.store_argument import store_argument
from kafkafs.cli.tree_options import isolation_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMNS = ("topic", "partition", "date", "startOffset", "endOffset", "records", "bytes", "file")


@click.command(epilog="\b\nExample:\n  kafkafs spark export /var/lib/kafka /tmp/lake orders --incremental --headers")
@store_argument
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--incremental", is_flag=True, help="Export only what is new since the last export.")
@click.option("--headers", is_flag=True, help="Add a column with the headers.")
@click.option(
    "--values",
    type=click.Choice(["binary", "text"]),
    default="binary",
    show_default=True,
    help="The type of keys and values; text has to be UTF-8.",
)
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "gzip", "lz4", "none"]),
    default="snappy",
    show_default=True,
    help="How the columns are compressed.",
)
@isolation_option
@click.option("--accept-data-loss", is_flag=True, help="Go on where records were deleted before they were exported.")
@click.option(
    "--table",
    type=click.Choice(["delta", "iceberg"]),
    help="Register the files in a Delta Lake table in TARGET, or in an Iceberg table for each topic.",
)
@click.option("--catalog", default="default", show_default=True, help="For Iceberg, one of pyiceberg's catalogs.")
@click.option("--namespace", default="kafka", show_default=True, help="For Iceberg, the namespace of the tables.")
@job_options
@output_options_of(Form.JSON, Form.JSONL, Form.CSV)
@click.pass_context
def export(
    ctx: click.Context,
    /,
    *,
    store: tuple[Path, ...],
    target: Path,
    topics: tuple[str, ...],
    **options: Any,  # noqa: ANN401 -- those of the job
) -> None:
    """Write the records of a store, or of some of its topics, as Parquet into the directory TARGET.

    The files are in topic=TOPIC/date=YYYY-MM-DD, which is the day of the records' timestamps in UTC. Their columns are
    key, value, partition, offset, timestamp and timestampType. Readers see nothing of a run before all of it is on
    disk; run a killed one again, and each record is there once. Without --incremental everything is exported, and
    replaces the earlier export of these topics. The store is not changed, and a broker may be running.

    A log that was truncated or recreated since its last export is an error, and nothing is written. All runs into one
    directory need the same --headers, --values, --isolation and --table; with --table, only incremental runs.

    Each file that was written is printed with its offsets; endOffset is the first one after it.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(lambda: jobs.export(session.spark, store, target, topics or None, **options), "exporting")
        write_rows(_COLUMNS, rows, form)
        session.summarize(_summary(rows))


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    records, size_bytes = (sum(row[name] for row in rows) for name in ("records", "bytes"))
    return f"exported {records} records in {len(rows)} files, {size_bytes / 1e6:.1f} MB"
