"""The jobs that write a new store from another one: `compact` and `rewrite`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.spark.session import job_options, job_session
from kafkafs.cli.store import store_argument
from storage.record import Codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.cli.spark.session import JobRows


def _settings(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE", ctx, parameter)
        settings[key] = value
    return settings


_target_argument = click.argument("target", type=click.Path(path_type=Path))
_topics_argument = click.argument("topics", nargs=-1, metavar="[TOPIC]...")
_set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="A setting of the topics in the new store; may be given several times.",
)


@click.command(epilog="\b\nExample:\n  kafkafs spark compact /var/lib/kafka /tmp/compacted customers --roll")
@store_argument
@_target_argument
@_topics_argument
@click.option("--roll", is_flag=True, help="Compact the active segments too, as if the logs had been rolled.")
@_set_option
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

    Records keep their offsets. The result is that of `kafkafs compact` until nothing is dirty. Other logs are copied:
    those of topics without cleanup.policy=compact, and of topics with unknown settings, unless --set
    cleanup.policy=compact is given. The store does not change, and a broker may be running.

    TARGET must be empty or missing, and gets its name when it is complete. The same command continues an interrupted
    job. Bytes are those of a partition's whole log, records those of its compacted part.
    """
    form = chosen_form(ctx) or Form.TABLE
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(
            lambda: jobs.compact(session.spark, store, target, topics or None, settings=settings, roll=roll),
            "compacting",
        )
        write_rows(*found, form)
        partitions = f"{found.total('isApplied')} of {len(found.rows)} partitions"
        session.summarize(f"compacted {partitions}, {_sizes(found)}")


@click.command(
    epilog="\b\nExample:\n  kafkafs spark rewrite /var/lib/kafka /tmp/smaller --codec zstd --redact-key customer-7"
)
@store_argument
@_target_argument
@_topics_argument
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
@_set_option
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

    Records keep their offsets, timestamps, headers, producers and transactions, also aborted ones. With --partitions
    they do not: committed records go to the partitions that Kafka's default partitioner chooses, and records of a key
    keep their order. A redacted record keeps its key; its value is null, and it has no headers. The store does not
    change, and a broker may be running.

    TARGET must be empty or missing, and gets its name when it is complete. The same command continues an interrupted
    job. With --partitions, records that were read are counted for the old partitions, those that were written for the
    new ones.
    """
    form = chosen_form(ctx) or Form.TABLE
    keys = {key.encode() for key in named_keys}
    if listed_keys is not None:
        keys.update(line for line in listed_keys.read_bytes().split(b"\n") if line)
    with job_session(ctx) as session:
        from kafkafs.spark import jobs

        found = session.rows(
            lambda: jobs.rewrite(session.spark, store, target, topics or None, redact_keys=keys, **options), "rewriting"
        )
        write_rows(*found, form)
        changed = f"{found.total('redacted')} records redacted, {found.total('dropped')} dropped"
        session.summarize(f"rewrote {len(found.rows)} partitions, {_sizes(found)}, {changed}")


def _sizes(found: JobRows) -> str:
    before_mb, after_mb = (found.total(column) / 1e6 for column in ("beforeBytes", "afterBytes"))
    return f"{before_mb:.1f} MB became {after_mb:.1f} MB"
