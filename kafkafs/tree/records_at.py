"""The records of a node, for callers that print them in a form of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.paths import OffsetPath, PartitionFilePath, TimePath
from kafkafs.tree.range_file import RangeFile
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Node
    from kafkafs.tree.tree import Tree
    from storage.record import Record


def records_at(tree: Tree, node: Node) -> tuple[LogSource, Iterator[Record]] | None:
    """The records in their order and the log that they are from; None if the node is not made of records."""
    if not isinstance(node.path, OffsetPath | TimePath | PartitionFilePath):
        return None
    source = tree.context.sources.get(node.path.log)
    if isinstance(node, RecordFile):
        return source, iter([node.record])
    if isinstance(node, RangeFile):
        return source, node.records()
    if isinstance(node, StreamFile):
        visible = source.visible()
        return source, visible.fresh_copy().records(visible.start_offset, visible.end_offset)
    return None
