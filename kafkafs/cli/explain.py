"""`kafkafs explain`: says where a record lies, and all that decides about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.output import chosen_form, output_options, print_line, write_detailed_rows
from kafkafs.cli.store import follow_links_option, server_properties_option, store_argument
from kafkafs.cli.tree import followed, node_at, opened_tree, tree_options
from kafkafs.find.explanation import Partition
from kafkafs.find.explanation import explain as explained
from kafkafs.find.explanation_text import (
    COLUMNS,
    DETAILS,
    lines_of_explanation,
    row_of_explanation,
    why_nothing_is_there,
)
from kafkafs.locator.descent import parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.offsets import AtOffset
from kafkafs.locator.paths import OffsetPath, PartitionPath
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.record_file import RecordFile
from storage.clock import Clock
from storage.log import Isolation
from storage.store import Mode

if TYPE_CHECKING:
    from pathlib import Path

    from kafkafs.locator.paths import LogPath
    from kafkafs.tree.tree import Tree


@click.command(epilog="\b\nExample:\n  kafkafs explain /var/lib/kafka orders/0/offset/42")
@store_argument
@follow_links_option
@click.argument("path", metavar="PATH")
@server_properties_option
@output_options
@click.pass_context
def explain(ctx: click.Context, *, store: tuple[Path, ...], path: str, server_properties: Path | None) -> None:
    """Say where a record lies: its segment, index entries, position, batch, producer and leader.

    PATH names a record as in a mount: orders/0/offset/42, orders/0/offset/latest, orders/0/by-time/2026-11-21T02:14.
    The offset of a control record, of one that was compacted away or of a damaged batch is explained too. Besides there
    is how its transaction ended, what retention and compaction will do with it and when, the batches around it, and the
    commands that print the batch's bytes and what kafka-dump-log says of it. Nothing is changed, and a broker may be
    running.
    """
    form = chosen_form(ctx)
    with opened_tree(store, Mode.READ_ONLY, tree_options(Isolation.UNCOMMITTED.value), server_properties) as tree:
        log, offset = _record(tree, path)
        source = tree.context.sources.get(log)
        is_topics = isinstance(log, PartitionPath)
        partition = Partition(source.topic, source.partition, source.directory, source.log, is_topics)
        found = explained(tree.context.store, partition, offset, Clock())
        if found is None:
            raise NotThereError(f"{path}: {why_nothing_is_there(offset, source.log.view.end_offset)}")
        if form is None:
            print_line("\n".join(lines_of_explanation(found)))
        else:
            write_detailed_rows(COLUMNS, DETAILS, [row_of_explanation(found)], form)


def _record(tree: Tree, text: str) -> tuple[LogPath, int]:
    """Return the log and the offset that a path names; an offset in figures need not have a record."""
    try:
        path = parse_path(text, tree.context.store.topics.inventory.topics)
    except BadNameError as error:
        raise click.UsageError(str(error)) from None
    if isinstance(path, OffsetPath) and isinstance(path.name.records, AtOffset):
        return path.log, path.name.records.offset
    node = followed(tree, node_at(tree, text))
    if not isinstance(node, RecordFile) or not isinstance(node.path, OffsetPath):
        raise click.UsageError(f"{text} is not one record; name one, such as orders/0/offset/42")
    return node.path.log, node.record.offset
