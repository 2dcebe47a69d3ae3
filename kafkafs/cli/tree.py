"""The tree of a store for one command, without a mount: its options, its paths, and how it is opened."""

from __future__ import annotations

import os
import posixpath
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.store import opened_store
from kafkafs.content import SizeCache, cache_directory
from kafkafs.damage import Damage
from kafkafs.locator.descent import parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.render.kcat_format import KcatFormat
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.node import Link, Stranger
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.files import PrivateFiles
from storage.log import Isolation
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from kafkafs.cli.output import Progress
    from kafkafs.tree.node import Node
    from kafkafs.tree.segment_files import SegmentTextFile
    from kafkafs.tree.stream_file import StreamFile

_LINKS_MAX: Final = 4

path_argument = click.argument("path", metavar="PATH")
"""A path in the tree, from its root, with or without a slash in front."""

isolation_option = click.option(
    "--isolation",
    type=click.Choice([each.value for each in Isolation]),
    default=Isolation.UNCOMMITTED.value,
    show_default=True,
    help="With read_committed, leave out records of open and of aborted transactions.",
)
damage_option = click.option(
    "--damage",
    type=click.Choice([each.value for each in Damage]),
    default=Damage.STOP.value,
    show_default=True,
    help="Fail at a batch that cannot be decoded, or skip it.",
)


def _compiled(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> KcatFormat | None:
    try:
        return None if text is None else KcatFormat(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


format_option = click.option(
    "-f",
    "--format",
    "record_format",
    metavar="FORMAT",
    callback=_compiled,
    help="Print each record in this format, with kcat's tokens.",
)


def tree_options(isolation: str, damage: str = Damage.STOP.value, *, list_limit: int | None = None) -> TreeOptions:
    """Return the options of a tree, as `-o` of a mount has them."""
    options = TreeOptions(isolation=Isolation(isolation), damage=Damage(damage))
    return options if list_limit is None else replace(options, list_limit=list_limit)


@contextmanager
def opened_tree(
    store: Sequence[Path],
    mode: Mode,
    options: TreeOptions,
    server_properties: Path | None = None,
    change: Change | None = None,
) -> Iterator[Tree]:
    """Provide the tree of the store; everything is closed after the block."""
    clock = Clock()
    with (
        opened_store(store, server_properties, is_changed=mode is Mode.READ_WRITE, change=change) as opened,
        closing(SizeCache(PrivateFiles(), cache_directory(os.environ))) as sizes,
    ):
        yield Tree(opened, options, clock=clock, sizes=sizes, control=ControlNodes())


def node_at(tree: Tree, text: str) -> Node:
    """Return the node at a path of the command line; raises `click.UsageError` for one that is not in the grammar."""
    try:
        path = parse_path(text, tree.context.store.topics.inventory.topics)
    except BadNameError as error:
        raise click.UsageError(str(error)) from None
    return tree.node(path)


def count_size(node: StreamFile | SegmentTextFile, progress: Progress, what: str) -> None:
    """Count the size of a file, and show how far that has come."""

    def show() -> bool:
        if progress.is_due:
            progress.show(what, *node.counting())
        return False  # it is never cancelled

    node.warm(show)


def followed(tree: Tree, node: Node) -> Node:
    """Return the node that a link leads to, and any other node itself; raises `NotThereError`.

    Raises the refusal of what is never opened.
    """
    for _ in range(_LINKS_MAX):
        if isinstance(node, Stranger):
            raise node.refusal
        if not isinstance(node, Link):
            return node
        node = node_at(tree, posixpath.normpath(posixpath.join(str(node.path), posixpath.pardir, node.target())))
    raise NotThereError(f"{node.path} leads nowhere")
