"""`kafkafs ls`: lists a directory of the tree, without a mount."""

from __future__ import annotations

import stat
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import sentence
from kafkafs.cli.output import Form, chosen_form, output_options, print_line, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import follow_links_option, server_properties_option, store_argument
from kafkafs.cli.tree import count_size, expanded, isolation_option, node_at, opened_tree, tree_options
from kafkafs.locator.times import Instant
from kafkafs.tree.errors import TreeError
from kafkafs.tree.node import Directory, Link, Stranger
from kafkafs.tree.segment_files import SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from storage.errors import StorageError
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree


_STRANGE: Final = {
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@click.command(epilog="\b\nExample:\n  kafkafs ls /var/lib/kafka orders/0")
@store_argument
@follow_links_option
@click.argument("path", metavar="[PATH]", default="/")
@click.option("-l", "is_long", is_flag=True, help="Print also kinds, sizes and times, in columns.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="List the newest N records; 0 for all.")
@isolation_option
@server_properties_option
@output_options
@click.pass_context
def ls(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    path: str,
    is_long: bool,
    limit: int | None,
    isolation: str,
    server_properties: Path | None,
) -> None:
    """List a directory of the tree, or a file by itself.

    PATH is a path as in a mount, / by default, or a pattern, such as 'ord*/0'. Every name of the grammar is a file,
    listed or not. Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx)
    progress = Progress.on_terminal(is_erased_for_results=True)
    with (
        progress.beating(f"listing {path}"),
        opened_tree(store, Mode.READ_ONLY, tree_options(isolation, list_limit=limit), server_properties) as tree,
    ):
        nodes = [node_at(tree, each) for each in expanded(tree, path)]
        if form is None and not is_long:
            for name in chain.from_iterable(_names(node, is_one=len(nodes) == 1) for node in nodes):
                progress.erase()
                print_line(name)
        else:
            rows = chain.from_iterable(_rows(tree, node, progress, is_one=len(nodes) == 1) for node in nodes)
            write_rows(("name", "kind", "bytes", "modified"), rows, form or Form.TABLE)


def _names(node: Node, *, is_one: bool) -> Iterator[str]:
    if not isinstance(node, Directory):
        return iter([str(node.path)])
    return (_named(node, name, is_one=is_one) for name in node.names())


def _named(directory: Directory, name: str, *, is_one: bool) -> str:
    """Return a name in a directory; its path if others are listed too."""
    return name if is_one else f"{directory.path}/{name}"


def _rows(tree: Tree, node: Node, progress: Progress, *, is_one: bool) -> Iterator[dict[str, object]]:
    """Yield a row for each name. A size that is not known is counted, which may take long."""
    if not isinstance(node, Directory):
        row = _row(str(node.path), node, progress)
        progress.erase()
        yield row
        return
    for number, name in enumerate(node.names(), 1):
        progress.show_number("listing", number)
        shown = _named(node, name, is_one=is_one)
        try:
            row = _row(shown, tree.child(node.path, name), progress)
        except (TreeError, StorageError, OSError) as error:  # an error does not stop the others
            row = {"name": shown, "kind": f"unreadable: {sentence(error)}", "bytes": None, "modified": None}
        progress.erase()
        yield row


def _kind(node: Node) -> str:
    if isinstance(node, Stranger):
        return _STRANGE[node.type]
    return "directory" if isinstance(node, Directory) else "link" if isinstance(node, Link) else "file"


def _row(name: str, node: Node, progress: Progress) -> dict[str, object]:
    if isinstance(node, StreamFile | SegmentTextFile):
        count_size(node, progress, f"counting {name}")
    found = node.attributes()
    kind = _kind(node)
    modified = str(Instant(found.modified_ms)) if found.modified_ms else None
    return {
        "name": name,
        "kind": kind,
        "bytes": None if kind == "directory" else found.size_bytes,
        "modified": modified,
    }
