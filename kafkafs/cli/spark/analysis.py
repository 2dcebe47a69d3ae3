"""The jobs that look into stores and change nothing: `stats`, `verify`, `diff`, `gaps`, `lag` and `skew`."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FOUND, say
from kafkafs.cli.output import Form, chosen_form, output_options, print_line, write_detailed_rows, write_rows
from kafkafs.cli.spark.session import job_options, job_session
from kafkafs.cli.store import other_store_argument, other_store_option, store_argument
from kafkafs.cli.verify import end_with_verdict, finding_line, verify_command

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

_DAMAGED: Final = "what lies after damage was not counted; `kafkafs verify` lists the damage"
_AS_IT_SHOULD_BE: Final = "isCompacted AND kind IN ('hole', 'sequence_gap')"
_OF_OTHER: Final = frozenset({"otherStartOffset", "otherEndOffset", "otherLag", "otherRecords", "missingRecords"})
_OF_TIME: Final = frozenset({"timeOffset", "recordsBefore"})

_topics_argument = click.argument("topics", nargs=-1, metavar="[TOPIC]...")


@click.command(epilog="\b\nExample:\n  kafkafs spark stats /var/lib/kafka orders --table")
@store_argument
@_topics_argument
@job_options
@output_options
@click.pass_context
def stats(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Count records, batches and bytes of each partition of a store, or of some topics, as `kafkafs stats` does.

    It adds the sizes of batches, and the records and bytes for each second between the first and the last timestamp.
    Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(lambda: jobs.stats(session.spark, store, topics or None), "counting")
        write_rows(*found, form)
        size_mb = found.total("bytes") / 1e6
        session.summarize(f"counted {len(found.rows)} partitions, {found.total('records')} records, {size_mb:.1f} MB")
        if found.total("damages"):
            say(_DAMAGED)


@verify_command("spark verify")
@job_options
@click.pass_context
def verify(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Check a store, or some of its topics, as `kafkafs verify` does: the findings and the exit codes are the same.

    Not one byte is changed, and a broker may be running. Each finding is a JSON object on a line of its own.
    """
    with job_session(ctx) as session:
        from kafkafs.spark.jobs.verify import check_store

        verification, findings = session.result(lambda: check_store(session.spark, store, topics), "verifying")
    for finding in findings:
        print_line(finding_line(finding))
    end_with_verdict(ctx, verification, session.time_text)


@click.command(epilog="\b\nExample:\n  kafkafs spark diff /var/lib/kafka /tmp/store orders --table")
@store_argument
@other_store_argument
@_topics_argument
@click.option(
    "--first",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="How many differing offsets of each partition to name, in JSON.",
)
@job_options
@output_options
@click.pass_context
def diff(
    ctx: click.Context, *, store: tuple[Path, ...], other: tuple[Path, ...], topics: tuple[str, ...], first: int
) -> None:
    """Compare two stores, or some topics of theirs, and print the partitions that differ.

    A partition differs if only one store has it, if its start or end offsets differ, or if at an offset between start
    and end in both the records differ or one is missing. Timestamps, keys, values and headers are compared, and null
    differs from empty; batches, compression, segments and control records are not compared. Nothing is changed.

    Exit code 1 means that something differs.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(
            lambda: jobs.diff(session.spark, store, other, topics or None, differences_max=first), "comparing"
        )
        different = [row for row in found.rows if not row["isSame"]]
        *columns, details = (column for column in found.columns if column != "isSame")
        write_detailed_rows(columns, [details], different, form)
        compared = f"compared {len(found.rows)} partitions, {found.total('records')} records"
        session.summarize(f"{compared}: {len(different)} partitions differ")
    if different:
        ctx.exit(EXIT_FOUND)


@click.command(epilog="\b\nExample:\n  kafkafs spark gaps /var/lib/kafka orders --threshold-ms 60000 --table")
@store_argument
@_topics_argument
@click.option(
    "--threshold-ms",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="How much older a record may be than the one before it.",
)
@click.option("--compacted", is_flag=True, help="Print also the holes and sequence gaps that compaction leaves.")
@job_options
@output_options
@click.pass_context
def gaps(
    ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], threshold_ms: int, compacted: bool
) -> None:
    """Find what is out of order in each partition of a store, or of some of its topics.

    A hole is where offsets are missing, a duplicate where the log goes back to offsets that it has had, a
    time_regression where producers gave a record an earlier time than the record before it (a row for a partition, with
    the largest), a sequence_gap or a sequence_duplicate where a producer's batch does not follow its last one. Damage
    is found too. The holes and sequence gaps that compaction leaves do not count. Nothing is changed, and a broker may
    be running.

    Exit code 1 means that something is out of order.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        def sorted_gaps() -> DataFrame:
            frame = jobs.gaps(session.spark, store, topics or None, threshold_ms=threshold_ms)
            wanted = frame if compacted else frame.where(f"NOT ({_AS_IT_SHOULD_BE})")
            marked = wanted.selectExpr("*", f"{_AS_IT_SHOULD_BE} AS isInOrder")
            return marked.orderBy("topic", "partition", "firstOffset")

        found = session.rows(sorted_gaps, "looking for gaps")
        write_rows(found.columns[:-1], found.rows, form)
        out_of_order = [row for row in found.rows if not row["isInOrder"]]
        partitions = {(row["topic"], row["partition"]) for row in out_of_order}
        session.summarize(f"found {len(out_of_order)} gaps in {len(partitions)} partitions")
    if out_of_order:
        ctx.exit(EXIT_FOUND)


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs spark lag /var/lib/kafka --table\n"
    "  kafkafs spark lag /var/lib/kafka billing --against /tmp/store --at -1h"
)
@store_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@other_store_option("--against", "Compare with the logs of another store too: a backup, or another replica.")
@click.option("--at", "time", metavar="TIME", help="Count also records before a time: 2026-11-21T10:15, -1h, today.")
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
    committedOffset, as kafka-consumer-groups prints it; records counts the actual records from the committed offset on,
    firstTimestamp is that of the first of them, and behindSeconds how long ago it was. The groups are those in the
    store's partitions of __consumer_offsets.

    With --against, the row also has the offsets of that store's log, otherLag and otherRecords from the same committed
    offset, and missingRecords: how many of records are outside its offsets. An otherLag below 0 means that the
    committed offset is beyond its end. With --at, timeOffset is the offset of the first record that is not before the
    time, and recordsBefore counts how many of records are below it.

    Nothing is changed, and a broker may be running. Damage ends the job.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(
            lambda: jobs.lag(session.spark, store, groups or None, other=against, time=time), "counting"
        )
        left_out = (frozenset() if against else _OF_OTHER) | (frozenset() if time else _OF_TIME)
        write_rows([column for column in found.columns if column not in left_out], found.rows, form)
        names = {row["group"] for row in found.rows}
        counted = f"counted {len(names)} groups, {len(found.rows)} partitions"
        session.summarize(f"{counted}, {found.total('records')} records to consume")


@click.command(epilog="\b\nExample:\n  kafkafs spark skew /var/lib/kafka orders --top 3 --table")
@store_argument
@_topics_argument
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="How many keys of each topic to name.",
)
@job_options
@output_options
@click.pass_context
def skew(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], top: int) -> None:
    """Weigh the partitions of each topic of a store, or of some topics, and name their hot keys.

    A row's kind is topic, partition or key. bytes is the size of batches on disk, dataBytes that of keys and values,
    uncompressed. share and dataShare are parts of the topic's. ratio compares a partition's records with the mean of
    the topic's partitions; that of a topic is its largest partition's; bytesRatio compares bytes. A key without key and
    key_base64 is null. It has the given number of records, or up to recordsOver less if a topic has too many keys to
    count them all. Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(lambda: jobs.skew(session.spark, store, topics or None, top), "weighing")
        rows = sorted(found.rows, key=itemgetter("topic"))  # those of a topic come in order
        write_rows(found.columns, rows, form)
        kinds = [row["kind"] for row in rows]
        session.summarize(f"weighed {kinds.count('topic')} topics, {kinds.count('partition')} partitions")
