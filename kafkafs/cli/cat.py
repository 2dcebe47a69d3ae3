"""`kafkafs cat`: prints files of the tree, without a mount."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_DONE, exit_code, say, sentence
from kafkafs.cli.output import write_pieces
from kafkafs.cli.progress import Progress
from kafkafs.cli.standard_streams import is_of_output
from kafkafs.cli.store import follow_links_option, server_properties_option, store_argument
from kafkafs.cli.tree import (
    damage_option,
    expanded,
    followed,
    format_option,
    isolation_option,
    node_at,
    opened_tree,
    tree_options,
)
from kafkafs.damage import Damage
from kafkafs.tree import batch_cache
from kafkafs.tree.errors import TreeError
from kafkafs.tree.node import Directory, File
from kafkafs.tree.records_at import records_at
from storage.errors import StorageError
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkafs.render.kcat_format import KcatFormat
    from kafkafs.tree.node import Node
    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.tree import Tree


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs cat /var/lib/kafka orders/0/offset/42\n"
    "  kafkafs cat /var/lib/kafka 'ord*/*/values'\n"
    "  kafkafs cat /var/lib/kafka orders/0/offset/last-100.. -f '%t %p %o %k %s\\n'"
)
@store_argument
@follow_links_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@format_option
@isolation_option
@damage_option
@server_properties_option
def cat(
    *,
    store: tuple[Path, ...],
    paths: tuple[str, ...],
    record_format: KcatFormat | None,
    isolation: str,
    damage: str,
    server_properties: Path | None,
) -> None:
    """Print files of the tree, one after another.

    PATH is a path as in a mount: orders/0/offset/42, orders/0/by-time/2026-11-21T02:14, orders/0/values. It may be a
    pattern, such as 'orders/*/values'. Nothing is changed, and a broker may be running.

    A missing or damaged PATH does not stop the others. Exit code 1 means that one is missing, 3 that one could not be
    read.
    """
    options = tree_options(isolation, damage)
    code = EXIT_DONE
    progress = Progress.on_terminal()
    with opened_tree(store, Mode.READ_ONLY, options, server_properties) as tree, _damage_said_once(options):
        for path in _each(tree, paths):
            try:
                if isinstance(path, TreeError):
                    raise path
                with progress.beating(f"reading {path}"):
                    _print(tree, path, record_format, progress)
            except (TreeError, StorageError, OSError) as error:
                progress.erase()
                if is_of_output(error):
                    raise
                code = max(code, exit_code(error))
                say(sentence(error))
        progress.erase()
        sys.stdout.buffer.flush()
    if code:
        raise SystemExit(code)


def _each(tree: Tree, patterns: Sequence[str]) -> Iterator[str | TreeError]:
    """Yield the paths that each pattern matches, or the error of one that matches none."""
    for pattern in patterns:
        try:
            yield from expanded(tree, pattern)
        except TreeError as error:
            yield error


@contextmanager
def _damage_said_once(options: TreeOptions) -> Iterator[None]:
    """Do not log damage that an error reports."""
    before = batch_cache.logger.level
    if options.damage is Damage.STOP:
        batch_cache.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        batch_cache.logger.setLevel(before)


def _print(tree: Tree, path: str, record_format: KcatFormat | None, progress: Progress) -> None:
    node = followed(tree, node_at(tree, path))
    if record_format is None:
        _copy(node, progress)
    else:
        _print_records(tree, node, record_format, progress)


def _copy(node: Node, progress: Progress) -> None:
    if isinstance(node, Directory):
        raise click.UsageError(f"{node.path} is a directory; kafkafs ls lists it")
    assert isinstance(node, File)
    write_pieces(node.contents(), progress)


def _print_records(tree: Tree, node: Node, record_format: KcatFormat, progress: Progress) -> None:
    found = records_at(tree, node)
    if found is None:
        raise click.UsageError(f"{node.path} is not made of records, so that --format means nothing for it")
    source, records = found
    write_pieces(map(record_format.over(source.topic, source.partition), records), progress)
