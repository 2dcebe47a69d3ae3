"""Warming a path counts what is there to be counted, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.locator.descent import child
from kafkafs.locator.paths import (
    PartitionDirectory,
    PartitionDirectoryPath,
    PartitionFile,
    PartitionFilePath,
    RootPath,
    SegmentPath,
    TopicPath,
)
from kafkafs.sizes import SizeCache
from kafkafs.tree.node import Attributes, Directory
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.segment_files import SegmentDirectory, SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from kafkafs.tree.warming import warm
from storage.testing.logs import DIRECTORY, LogOnMemory, sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Views

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Node

LOG = f"{0:020d}.log"


class Names(Directory):
    """A directory of these names."""

    def __init__(self, path: TreePath, *names: str) -> None:
        super().__init__(path)
        self._names = names

    def attributes(self) -> Attributes:
        return Attributes()

    def names(self) -> Iterator[str]:
        return iter(self._names)


class OneLogTree:
    """A tree with one log, of which only what warming asks for is there."""

    def __init__(self, source: LogSource, sizes: SizeCache) -> None:
        self._source = source
        self._sizes = sizes

    def child(self, parent: TreePath, name: str) -> Node:
        return self.node(child(parent, name))

    def node(self, path: TreePath) -> Node:
        match path:
            case RootPath():
                return Names(path, ".kafkafs", "topic", "by-time")
            case TopicPath():
                return Names(path, "0", "config")
            case PartitionDirectoryPath(_, PartitionDirectory.SEGMENTS):
                return SegmentDirectory(path, self._source)
            case PartitionFilePath():
                return StreamFile(path, self._source, self._sizes)
            case SegmentPath(_, _, True):
                return SegmentTextFile(path, self._source, self._sizes)
            case _:
                return Names(path, "nothing that is asked for")


@pytest.fixture
def memory() -> LogOnMemory:
    memory = LogOnMemory()
    for number in range(30):
        memory.log.append_as_leader(sent(b"value %d" % number), leader_epoch=1)
    return memory


def test_all_streams_below_a_directory_are_counted(views: Views, memory: LogOnMemory) -> None:
    source = views.memory(memory, TreeOptions(counted_bytes_max=0))
    for path in (RootPath(), TopicPath("topic"), source.path):
        tree = OneLogTree(source, SizeCache(memory.files, None))
        values = tree.node(PartitionFilePath(source.path, PartitionFile.VALUES))
        assert values.attributes().size_bytes is None
        assert warm(tree, path) == 2
        assert values.attributes().size_bytes == sum(len(value or b"") + 1 for value in memory.values())


def test_the_texts_of_segments_are_counted_where_they_are_asked_for(views: Views, memory: LogOnMemory) -> None:
    source = views.memory(memory, TreeOptions(counted_bytes_max=0))
    tree = OneLogTree(source, SizeCache(memory.files, None))
    segments = PartitionDirectoryPath(source.path, PartitionDirectory.SEGMENTS)
    texts = [name for name in tree.node(segments).names() if name.endswith(".txt")]  # type: ignore[attr-defined]
    assert warm(tree, segments) == len(texts) > 0
    text = tree.node(SegmentPath(source.path, LOG, is_text=True))
    assert text.attributes().size_bytes == len(bytes(text.open().read(0, 1 << 20)))  # type: ignore[attr-defined]
    assert memory.files.status(Path(DIRECTORY, LOG)) is not None


def test_a_file_without_anything_to_count_is_left_alone(views: Views, memory: LogOnMemory) -> None:
    source = views.memory(memory)
    tree = OneLogTree(source, SizeCache(memory.files, None))
    assert warm(tree, PartitionFilePath(source.path, PartitionFile.VALUES)) == 1
    assert warm(tree, SegmentPath(source.path, LOG)) == 0
    assert warm(tree, RootPath(), lambda: True) == 0
