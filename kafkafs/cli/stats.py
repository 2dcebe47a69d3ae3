"""`kafkafs stats`: counts the records, the batches and the bytes of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_FAILED, say, sentence
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import follow_links_option, opened_store, store_argument
from kafkafs.find.partitions import matching_partitions
from storage.errors import StorageError, UnknownPartitionError
from storage.log import log_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from storage.log import LogStatistics
    from storage.log_dir import Partition
    from storage.store import Store

_COLUMNS = (
    "topic",
    "partition",
    "records",
    "batches",
    "bytes",
    "indexBytes",
    "segments",
    "startOffset",
    "endOffset",
    "firstTimestamp",
    "lastTimestamp",
    "controlBatches",
    "codecs",
    "magics",
    "damages",
)


@click.command(epilog="\b\nExample:\n  kafkafs stats /var/lib/kafka orders --table")
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC[/PARTITION]]...")
@output_options
@click.pass_context
def stats(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Count records, batches and bytes of each partition of a store, or of some of its topics.

    TOPIC and PARTITION may be patterns, such as 'ord*' or 'orders/[0-3]'. Every log is read once. Nothing is changed,
    and a broker may be running. firstTimestamp is the smallest first timestamp of a batch, lastTimestamp the largest of
    all. damages counts the places after which a segment could not be read; they are printed on standard error, and the
    rest of the segment is not counted. Exit code 3 means that a log could not be read: the others are counted.
    """
    form = chosen_form(ctx) or Form.TABLE
    progress = Progress.on_terminal(is_erased_for_results=True)
    unread: list[Partition] = []
    with opened_store(store) as opened, progress.beating():
        write_rows(_COLUMNS, _rows(opened, matching_partitions(opened, topics), progress, unread), form)
        progress.erase()
    if unread:
        ctx.exit(EXIT_FAILED)


def _rows(
    store: Store, chosen: Sequence[Partition], progress: Progress, unread: list[Partition]
) -> Iterator[Mapping[str, object]]:
    """Yield a row for each partition but those that cannot be read, which are said and added to `unread`."""
    for number, (topic, partition) in enumerate(chosen, start=1):
        progress.show_count("counting partitions", number, len(chosen))
        try:
            found = log_statistics(store.log(topic, partition).view)
        except UnknownPartitionError:
            continue  # it was deleted meanwhile
        except (StorageError, OSError) as error:
            progress.erase()
            say(sentence(error))
            unread.append((topic, partition))
            continue
        for damage in found.damages:
            progress.erase()
            say(str(damage))
        progress.erase()
        yield _row(topic, partition, found)


def _row(topic: str, partition: int, found: LogStatistics) -> Mapping[str, object]:
    return {
        "topic": topic,
        "partition": partition,
        "records": found.records,
        "batches": found.batches,
        "bytes": found.size_bytes,
        "indexBytes": found.index_bytes,
        "segments": found.segments,
        "startOffset": found.start_offset,
        "endOffset": found.end_offset,
        "firstTimestamp": found.first_timestamp,
        "lastTimestamp": found.last_timestamp,
        "controlBatches": found.control_batches,
        "codecs": dict(sorted(found.codecs.items())),
        "magics": dict(sorted(found.magics.items())),
        "damages": len(found.damages),
    }
