"""The paths to count before sizes are known: a file itself, or all streams below a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kafkafs.dump.file_kinds import FileKind
from kafkafs.locator.descent import child
from kafkafs.locator.paths import (
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
from kafkafs.tree.segment_files import dumped_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.tree import Tree

    CountedPath: TypeAlias = PartitionFilePath | SegmentPath

_STREAMS: Final = (PartitionFile.VALUES, PartitionFile.RECORDS)


def counted_paths(tree: Tree, path: TreePath) -> Iterator[CountedPath]:
    """The paths, from this one down, of what is a `StreamFile` or a `SegmentTextFile` whose size takes counting.

    Below `segments` those are the texts of logs; from a partition up they are the streams alone, and no log is opened
    to find them. The caller asks the tree whether such a path exists.
    """
    match path:
        case PartitionFilePath(_, file) if file in _STREAMS:
            yield path
        case SegmentPath(_, file, True) if dumped_kind(file) is FileKind.LOG:
            yield path
        case PartitionPath() | UnattachedPath():
            yield from (PartitionFilePath(path, file) for file in _STREAMS)
        case PartitionDirectoryPath(_, PartitionDirectory.SEGMENTS) | TopicPath() | RootPath():
            directory = tree.node(path)
            assert isinstance(directory, Directory)
            topics = tree.context.store.topics.inventory.topics
            for name in directory.names():
                yield from counted_paths(tree, child(path, name, topics))
