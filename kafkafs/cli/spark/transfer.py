"""The jobs that bring records into a store and out of it: `ingest` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkafs.cli.failures import say
from kafkafs.cli.output import Form, chosen_form, output_options, output_options_of, write_rows
from kafkafs.cli.spark.session import job_options, job_session
from kafkafs.cli.store import store_argument
from kafkafs.cli.tree import isolation_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.cli.spark.session import JobRows

Command = TypeVar("Command", bound="Callable[..., Any]")

_NAMED: Final = {
    "key": "The column, or field, of the key.",
    "value": "The column of the value.",
    "headers": 'The column of the headers: [{"key":"a","value":"b"}].',
    "topic": "The column of the topic, without --topic.",
    "partition": "The column of the partition.",
    "timestamp": "The column of the time: ISO 8601, or milliseconds.",
    "offset": "The column of the offset, which orders the records of a partition.",
}
_UNDATED: Final = (
    "records have timestamps outside of the years 0001 to 9999, as when microseconds are taken for milliseconds: their "
    "date and timestamp are null, and invalidTimestamp has the number"
)
_OF_FILES: Final = ("form", "whole_row", "transaction")
_OF_BOTH: Final = ("by_key", "codec")


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
@click.option("--accept-data-loss", is_flag=True, help="Go on if records were deleted before they were exported.")
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

    The files are in topic=TOPIC/date=YYYY-MM-DD, the day of the records' timestamps in UTC. Their columns are key,
    value, partition, offset, timestamp, timestampType and invalidTimestamp, which has the number of a timestamp outside
    of the years 0001 to 9999: the date and the timestamp of such a record are null.

    Readers see nothing of a run until all of it is on disk; run a killed command again, and each record is there once.
    Without --incremental everything is exported, and replaces the earlier export of these topics. The store is not
    changed, and a broker may be running.

    A log that was truncated or recreated since its last export is an error, and nothing is written. All runs into one
    directory need the same --headers, --values, --isolation and --table; with --table, only incremental runs.

    Each new file is printed with its offsets; endOffset is the first offset after it.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(lambda: jobs.export(session.spark, store, target, topics or None, **options), "exporting")
        write_rows(*found, form)
        size_mb = found.total("bytes") / 1e6
        session.summarize(f"exported {found.total('records')} records in {len(found.rows)} files, {size_mb:.1f} MB")
        undated = sum(row["records"] for row in found.rows if row["date"] is None)
        if undated:
            say(f"{undated} {_UNDATED}")


def _column_options(command: Command) -> Command:
    for name, text in reversed(_NAMED.items()):
        command = click.option(f"--{name}-column", name, help=text)(command)
    return command


@click.command(
    epilog="\b\nExample:\n"
    "  echo '{\"id\":1}' > /tmp/new.json; kafkafs spark ingest /tmp/store /tmp/new.json --topic orders --whole-row"
)
@store_argument
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--topic", "topics", multiple=True, help="The topic for the records; with --from-kafka, a topic to read.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "envelopes", "json", "csv"]),
    help="The format of SOURCE; by default by the names of its files.",
)
@_column_options
@click.option("--whole-row", is_flag=True, help="Store the whole row, as JSON, as the value.")
@click.option("--by-key", is_flag=True, help="Choose partitions by key, as Kafka's producers do, not by the input.")
@click.option(
    "--compression",
    "codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches are compressed if the topic leaves it to producers.",
)
@click.option("--id", "transaction", help="A name for this input, which is stored once.")
@click.option("--from-kafka", "bootstrap", metavar="HOST:PORT,...", help="A live cluster to read topics from.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="The directory that keeps how far the cluster is read."
)
@click.option(
    "--kafka-option", "kafka", multiple=True, metavar="NAME=VALUE", help="As Spark's Kafka source takes them."
)
@job_options
@output_options
@click.pass_context
def ingest(
    ctx: click.Context,
    /,
    *,
    store: tuple[Path, ...],
    sources: tuple[str, ...],
    bootstrap: str | None,
    **options: Any,  # noqa: ANN401 -- those of the one work or the other
) -> None:
    """Append the records of files to a store, which is made if it is missing.

    SOURCE is a file or a directory of Parquet, CSV with a line of names, or JSON, an object a line: envelopes as
    records.jsonl shows them, or other objects if columns are named. Columns are called key, value, headers, topic,
    partition, timestamp and offset unless they are named. The files of `kafkafs spark export --headers` become the
    same records again. They keep their partitions, in the order of their offsets. A missing topic is made with
    num.partitions partitions: make it first if it needs more, or let keys choose with --by-key.

    An input is stored once. It is recognized by its files' names, sizes and times and by these options, or by --id;
    repeat a killed command as it was. New files in a directory make it another input: give only them.

    With --from-kafka the command appends the new records of a live cluster's topics; --checkpoint keeps how far it has
    come. Spark comes without its connector for Kafka, which this setting fetches:

    \b
      kafkafs spark ingest /tmp/store --from-kafka broker:9092 --topic orders --checkpoint /tmp/ingested \\
        --conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION
    """
    if bootstrap is None:
        work = _from_files(ctx, store, sources, options)
    else:
        work = _from_kafka(ctx, store, sources, bootstrap, options)
    with job_session(ctx) as session:
        found = session.rows(lambda: work(session.spark), "ingesting")
        write_rows(*found, chosen_form(ctx) or Form.TABLE)
        session.summarize(_appended(found))


def _from_files(
    ctx: click.Context, store: Sequence[Path], sources: Sequence[str], options: Mapping[str, Any]
) -> Callable[[SparkSession], DataFrame]:
    topics = options["topics"]
    if not sources or len(topics) > 1:
        raise click.UsageError("name what to ingest, and one topic at most; or a cluster with --from-kafka", ctx)
    if options["checkpoint"] is not None or options["kafka"]:
        raise click.UsageError("--checkpoint and --kafka-option go with --from-kafka", ctx)

    def work(spark: SparkSession) -> DataFrame:
        from kafkafs.spark import jobs

        said = {name: options[name] for name in (*_OF_FILES, *_OF_BOTH)}
        return jobs.ingest(spark, sources, store, topics[0] if topics else None, columns=_named(options), **said)

    return work


def _from_kafka(
    ctx: click.Context, store: Sequence[Path], sources: Sequence[str], bootstrap: str, options: Mapping[str, Any]
) -> Callable[[SparkSession], DataFrame]:
    topics, checkpoint = options["topics"], options["checkpoint"]
    if sources or _named(options) or any(options[name] for name in _OF_FILES):
        raise click.UsageError("--from-kafka reads no files, and its records have columns of their own", ctx)
    if not topics or checkpoint is None:
        raise click.UsageError("--from-kafka needs --topic and --checkpoint", ctx)
    kafka = dict(_split(ctx, text) for text in options["kafka"])

    def work(spark: SparkSession) -> DataFrame:
        from kafkafs.spark import jobs

        said = {name: options[name] for name in _OF_BOTH}
        return jobs.ingest_from_kafka(spark, bootstrap, topics, store, checkpoint, options=kafka, **said)

    return work


def _named(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: options[name] for name in _NAMED if options[name] is not None}


def _appended(found: JobRows) -> str:
    if not found.rows:
        return "appended nothing: all of it is in the store already, or there is nothing"
    return f"appended {found.total('records')} records to {len(found.rows)} partitions"


def _split(ctx: click.Context, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not of the form NAME=VALUE.", ctx)
    return name, value
