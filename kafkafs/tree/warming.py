"""Waiting until sizes are known: of one file, or of all streams below a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import (
    ConfigPath,
    PartitionDirectory,
    PartitionDirectoryPath,
    PartitionFile,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.tree.node import Directory
from kafkafs.tree.segment_files import SegmentTextFile
from kafkafs.tree.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree

_STREAMS: Final = (PartitionFile.VALUES, PartitionFile.RECORDS)


def warm(tree: Tree, path: TreePath, is_cancelled: Callable[[], bool] = lambda: False) -> int:
    """Count what the path is, or has below it, and return how many files that were; the sizes are kept.

    Below `segments` those are the texts; from a partition up they are the streams alone. Of a file whose size takes no
    counting there is nothing to do. Raises what finding a file or reading a log raises.
    """
    files = 0
    for node in _counted(tree, tree.node(path)):
        if is_cancelled():
            break
        node.warm(is_cancelled)
        files += 1
    return files


def _counted(tree: Tree, node: Node) -> Iterator[StreamFile | SegmentTextFile]:
    if isinstance(node, StreamFile | SegmentTextFile):
        yield node
    elif isinstance(node, Directory):
        for path in _below(tree, node):
            yield from _counted(tree, tree.node(path))


def _below(tree: Tree, directory: Directory) -> Iterator[TreePath]:
    """The places in a directory where there may be something to be counted."""
    match directory.path:
        case PartitionDirectoryPath(_, PartitionDirectory.SEGMENTS):
            children = (tree.child(directory.path, name).path for name in directory.names())
            yield from (path for path in children if isinstance(path, SegmentPath) and path.is_text)
        case PartitionPath() | UnattachedPath() as log:
            yield from (PartitionFilePath(log, file) for file in _STREAMS)
        case TopicPath():
            children = (tree.child(directory.path, name).path for name in directory.names())
            yield from (path for path in children if not isinstance(path, ConfigPath))
        case RootPath():
            children = (tree.child(directory.path, name).path for name in directory.names())
            yield from (path for path in children if isinstance(path, TopicPath))
