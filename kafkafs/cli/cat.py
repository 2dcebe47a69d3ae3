"""`kafkafs cat`: what a file of the tree holds, without a mount."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.opened_tree import followed, node_at, opened_tree
from kafkafs.cli.store_argument import store_argument
from kafkafs.cli.tree_options import damage_option, isolation_option, tree_options
from kafkafs.render.chunks import chunks
from kafkafs.render.kcat_format import KcatFormat
from kafkafs.tree.node import Directory, File
from kafkafs.tree.records_at import records_at
from storage.store.store import Mode

if TYPE_CHECKING:
    from pathlib import Path

    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree

_READ_BYTES: Final = 1024 * 1024


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs cat /var/lib/kafka orders/0/offset/42\n"
    "  kafkafs cat /var/lib/kafka orders/0/offset/last-100.. -f '%t %p %o %k %s\\n'"
)
@store_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("-f", "--format", "record_format", metavar="FORMAT", help="Print each record so, in kcat's tokens.")
@isolation_option
@damage_option
def cat(
    *, store: tuple[Path, ...], paths: tuple[str, ...], record_format: str | None, isolation: str, damage: str
) -> None:
    """Print what files of the tree hold, one behind the other.

    PATH is what it is in a mount: orders/0/offset/42, orders/0/by-time/2026-11-21T02:14, orders/0/values. Nothing is
    changed, and a broker may be running.
    """
    compiled = None if record_format is None else _compiled(record_format)
    with opened_tree(store, Mode.READ_ONLY, tree_options(isolation, damage)) as tree:
        for path in paths:
            node = followed(tree, node_at(tree, path))
            if compiled is None:
                _copy(node)
            else:
                _print_records(tree, node, compiled)
        sys.stdout.buffer.flush()


def _compiled(text: str) -> KcatFormat:
    try:
        return KcatFormat(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _copy(node: Node) -> None:
    if isinstance(node, Directory):
        raise click.UsageError(f"{node.path} is a directory; kafkafs ls lists it")
    assert isinstance(node, File)
    reading = node.open()
    try:
        position = 0
        while data := reading.read(position, _READ_BYTES):
            sys.stdout.buffer.write(data)
            position += len(memoryview(data))
    finally:
        reading.close()


def _print_records(tree: Tree, node: Node, record_format: KcatFormat) -> None:
    found = records_at(tree, node)
    if found is None:
        raise click.UsageError(f"{node.path} is not made of records, so that --format means nothing for it")
    source, records = found
    for chunk in chunks(map(record_format.over(source.topic, source.partition), records)):
        sys.stdout.buffer.write(chunk)
