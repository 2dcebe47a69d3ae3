"""`kafkafs warm`: count the sizes of decoded files before they are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_FAILED, say, sentence
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import follow_links_option, server_properties_option, store_argument
from kafkafs.cli.tree import count_size, damage_option, isolation_option, node_at, opened_tree, tree_options
from kafkafs.tree.errors import TreeError
from kafkafs.tree.segment_files import SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from kafkafs.tree.warming import counted_paths
from storage.errors import StorageError
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkafs.tree.tree import Tree
    from kafkafs.tree.warming import CountedPath


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs warm /var/lib/kafka orders/0/values\n"
    "  kafkafs warm /var/lib/kafka orders/0/segments --jsonl"
)
@store_argument
@follow_links_option
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@isolation_option
@damage_option
@server_properties_option
@output_options
@click.pass_context
def warm(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    paths: tuple[str, ...],
    isolation: str,
    damage: str,
    server_properties: Path | None,
) -> None:
    """Count the sizes of files as the tree shows them, and print them.

    PATH is a path as in a mount; without one, all topics are counted. For a topic or a partition, its streams are
    counted, values, keys and records.jsonl; for segments/, the texts of its logs. Other files have a size without
    counting, and are not printed.

    Counts are kept in the user's cache directory, where a mount by the same user finds them; later only new records are
    counted. Nothing in the store is changed, and a broker may be running.

    Exit code 3 means that a size stays unknown.
    """
    form = chosen_form(ctx) or Form.TABLE
    with opened_tree(store, Mode.READ_ONLY, tree_options(isolation, damage), server_properties) as tree:
        with Progress.on_terminal(is_erased_for_results=True).beating("looking for what is to be counted"):
            places = [node_at(tree, text).path for text in paths or ("/",)]
            counted = [path for place in places for path in counted_paths(tree, place)]
        warming = _Warming(tree, counted)
        write_rows(("path", "bytes"), warming.rows(), form)
    if warming.has_failed:
        raise SystemExit(EXIT_FAILED)


class _Warming:
    """Counts files one after another; an error does not stop the others."""

    def __init__(self, tree: Tree, paths: Sequence[CountedPath]) -> None:
        self.has_failed = False
        self._tree = tree
        self._paths = paths
        self._progress = Progress.on_terminal(is_erased_for_results=True)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the size of each, None if it stays unknown, which is reported."""
        for number, path in enumerate(self._paths, 1):
            size_bytes = None
            try:
                what = f"{path}, {number} of {len(self._paths)}"
                with self._progress.beating(what):
                    size_bytes = self._count(path, what)
            except (TreeError, StorageError, OSError) as error:
                self._fail(sentence(error))
            else:
                if size_bytes is None:
                    self._fail(f"{path}: its size stays unknown, because not all of it can be read")
            self._progress.erase()
            yield {"path": str(path), "bytes": size_bytes}

    def _count(self, path: CountedPath, what: str) -> int | None:
        node = self._tree.node(path)
        assert isinstance(node, StreamFile | SegmentTextFile)
        count_size(node, self._progress, what)
        return node.attributes().size_bytes

    def _fail(self, text: str) -> None:
        self.has_failed = True
        self._progress.erase()
        say(text)
