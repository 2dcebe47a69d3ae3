"""`kafkafs spark rewrite`: a new store with the same records in other batches or partitions, written with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session
from kafkafs.cli.jobs.new_store_options import set_option, target_argument
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import store_argument
from storage.record import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMNS = (
    "topic",
    "partition",
    "recordsBefore",
    "recordsAfter",
    "batchesBefore",
    "batchesAfter",
    "beforeBytes",
    "afterBytes",
    "redacted",
    "dropped",
    "segments",
)


@click.command(
    epilog="\b\nExample:\n  kafkafs spark rewrite /var/lib/kafka /tmp/smaller --codec zstd --redact-key customer-7"
)
@store_argument
@target_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--codec", type=click.Choice([codec.label for codec in Codec]), help="Compress the batches with this.")
@click.option("--level", type=int, metavar="N", help="The level of gzip, lz4 or zstd; by default the topic's.")
@click.option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Merge neighbouring batches, up to this many bytes.",
)
@click.option(
    "--redact-key", "named_keys", multiple=True, metavar="KEY", help="Remove the values of this key; repeatable."
)
@click.option(
    "--redact-keys",
    "listed_keys",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Remove the values of the keys in this file, one a line.",
)
@click.option("--drop-redacted", is_flag=True, help="Remove the records with these keys altogether.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Give each topic this many partitions, with new offsets.",
)
@set_option
@job_options
@output_options
@click.pass_context
def rewrite(
    ctx: click.Context,
    /,
    *,
    store: tuple[Path, ...],
    target: Path,
    topics: tuple[str, ...],
    named_keys: tuple[str, ...],
    listed_keys: Path | None,
    **options: Any,  # noqa: ANN401 -- those of the job
) -> None:
    """Write a store, or some of its topics, into a new store at TARGET, in other batches.

    Records keep their offsets, timestamps, headers, producers and transactions, aborted ones too. With --partitions
    they do not: what was committed goes where the default partitioner of Kafka's producers sends it, records of a key
    in their order. Of a record that is redacted the key stays, with null as its value and without headers. Nothing of
    the store changes, and a broker may be running.

    TARGET is empty or does not exist, and is there once all of it is. The same command continues an interrupted
    job. With --partitions, what was read is counted for the old partitions, and what was written for the new ones.
    """
    form = chosen_form(ctx) or Form.TABLE
    keys = {key.encode() for key in named_keys}
    if listed_keys is not None:
        keys.update(line for line in listed_keys.read_bytes().split(b"\n") if line)
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        rows = session.rows(
            lambda: jobs.rewrite(session.spark, store, target, topics or None, redact_keys=keys, **options), "rewriting"
        )
        write_rows(_COLUMNS, rows, form)
        session.summarize(_summary(rows))


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    before_bytes, after_bytes, redacted, dropped = (
        sum(row[name] or 0 for row in rows) for name in ("beforeBytes", "afterBytes", "redacted", "dropped")
    )
    sizes = f"{before_bytes / 1e6:.1f} MB became {after_bytes / 1e6:.1f} MB"
    return f"rewrote {len(rows)} partitions, {sizes}, {redacted} records redacted, {dropped} dropped"
