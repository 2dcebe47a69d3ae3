"""The tree of a store for one command, without a mount: its options, its paths, and how it is opened."""

from __future__ import annotations

import os
import posixpath
import re
from contextlib import closing, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.store import opened_store
from kafkafs.content import SizeCache, cache_directory
from kafkafs.damage import Damage
from kafkafs.locator.descent import parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.render.kcat_format import KcatFormat
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import NotThereError, TreeError
from kafkafs.tree.node import Directory, Link, Stranger
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.errors import StorageError, UnknownPartitionError
from storage.files import PrivateFiles
from storage.log import Isolation
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from kafkafs.cli.progress import Progress
    from kafkafs.tree.node import Node
    from kafkafs.tree.segment_files import SegmentTextFile
    from kafkafs.tree.stream_file import StreamFile

_LINKS_MAX: Final = 4
_PATTERN: Final = re.compile(r"[*?[]")

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


def compiled_format(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> KcatFormat | None:
    """Return the format that an option gives."""
    try:
        return None if text is None else KcatFormat(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


FORMAT_HELP: Final = (
    "Print each record in this format, with kcat's tokens: %t topic, %p partition, %o offset, %T timestamp (ms), "
    "%k key, %s value, %h headers, %K size of the key, %S size of the value, %R the same in 4 bytes; %% and \\n \\t "
    "\\r \\0 \\xHH as in C. %t, %k and %s take {hex} and {base64}: %k{hex}."
)
format_option = click.option(
    "-f", "--format", "record_format", metavar="FORMAT", callback=compiled_format, help=FORMAT_HELP
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
        closing(Tree(opened, options, clock=clock, sizes=sizes, control=ControlNodes())) as tree,
    ):
        yield tree


def node_at(tree: Tree, text: str) -> Node:
    """Return the node at a path of the command line; raises `click.UsageError` for one that is not in the grammar."""
    try:
        path = parse_path(text, tree.context.store.topics.inventory.topics)
    except BadNameError as error:
        raise click.UsageError(str(error)) from None
    return tree.node(path)


def expanded(tree: Tree, text: str) -> list[str]:
    """Return the paths that a pattern of a shell matches, in order; a path without `*`, `?` and `[` as it is.

    As in a mount, a pattern sees the names that are listed, and what follows it may be any name of the grammar. Names
    that begin with a dot are matched by patterns that do. Raises `NotThereError` if nothing matches.
    """
    if not _PATTERN.search(text):
        return [text]
    found = [""]
    for part in filter(None, text.split("/")):
        is_pattern = _PATTERN.search(part) is not None
        found = [
            f"{path}/{name}"
            for path in found
            for name in (_matching(tree, path, part) if is_pattern else [part])
            if is_pattern or "" in found or _is_there(tree, f"{path}/{name}")
        ]
    if not found:
        raise NotThereError(f"nothing in the store matches {text}")
    return found


def _matching(tree: Tree, path: str, pattern: str) -> Iterator[str]:
    """Yield the listed names of a directory that match; none of what is no directory."""
    node = node_at(tree, path)
    names = node.names() if isinstance(node, Directory) else ()
    return (each for each in names if fnmatchcase(each, pattern) and each.startswith(".") <= pattern.startswith("."))


def _is_there(tree: Tree, path: str) -> bool:
    """Return True unless the tree has no such name; what cannot be read is there."""
    try:
        tree.node(parse_path(path, tree.context.store.topics.inventory.topics))
    except (BadNameError, NotThereError, UnknownPartitionError):
        return False
    except (StorageError, OSError, TreeError):
        pass
    return True


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
