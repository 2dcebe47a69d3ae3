"""The paths to count before sizes are known: a file itself, or all streams below a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kafkafs.dump.file_kinds import FileKind
from kafkafs.locator.descent import child
from kafkafs.locator.paths import (
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View
from kafkafs.tree.node import Directory
from kafkafs.tree.segment_files import dumped_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.tree import Tree

    CountedPath: TypeAlias = PartitionFilePath | SegmentPath

_STREAMS: Final = tuple(view for view in PARTITION_VIEWS.values() if view.kind is Kind.STREAM)


def counted_paths(tree: Tree, path: TreePath) -> Iterator[CountedPath]:
    """The paths, from this one down, of what is a `StreamFile` or a `SegmentTextFile` whose size takes counting.

    Below `segments` those are the texts of logs; from a partition up they are the streams alone, and no log is opened
    to find them. The caller asks the tree whether such a path exists.
    """
    match path:
        case PartitionFilePath(_, view) if view in _STREAMS:
            yield path
        case SegmentPath(_, file, True) if dumped_kind(file) is FileKind.LOG:
            yield path
        case PartitionPath() | UnattachedPath():
            yield from (PartitionFilePath(path, view) for view in _STREAMS)
        case PartitionDirectoryPath(_, View.SEGMENTS) | TopicPath() | RootPath():
            directory = tree.node(path)
            assert isinstance(directory, Directory)
            topics = tree.context.store.topics.inventory.topics
            for name in directory.names():
                yield from counted_paths(tree, child(path, name, topics))
