"""From paths to nodes.

A `Tree` finds the node at a path in a store, for a mount or a command. What is removed from the store leaves the tree
within a second. What cannot be opened is an error only at its own path.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkafs.locator.descent import child
from kafkafs.locator.errors import AmbiguousNameError, BadNameError
from kafkafs.locator.offsets import RecordRange
from kafkafs.locator.paths import (
    ConfigPath,
    OffsetPath,
    PartitionDirectory,
    PartitionDirectoryPath,
    PartitionFile,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    TimePath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.locator.times import TimeRange
from kafkafs.tree.append_file import AppendFile
from kafkafs.tree.compaction_plan_file import CompactionPlanFile
from kafkafs.tree.config_file import ConfigFile
from kafkafs.tree.context import TreeContext
from kafkafs.tree.errors import AmbiguousPathError, NotThereError
from kafkafs.tree.facts import EpochsFile, InfoFile, ProducersFile, TransactionsFile
from kafkafs.tree.offset_directory import OffsetDirectory
from kafkafs.tree.partition_directory import PartitionNode
from kafkafs.tree.range_file import RangeFile
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.retention_plan_file import RetentionPlanFile
from kafkafs.tree.root import RootDirectory
from kafkafs.tree.segment_files import RawSegmentFile, SegmentDirectory, SegmentTextFile
from kafkafs.tree.start_offset_file import StartOffsetFile
from kafkafs.tree.stream_file import StreamFile
from kafkafs.tree.time_views import TimeDirectory, TimeLink
from kafkafs.tree.topic_directory import TopicDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkafs.locator.paths import TreePath
    from kafkafs.sizes import SizeCache
    from kafkafs.tree.control import ControlNodes
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Node
    from kafkafs.tree.options import TreeOptions
    from storage.clock import Clock
    from storage.store import Store

_FACTS: Final[Mapping[PartitionFile, Callable[[PartitionFilePath, LogSource, Clock], Node]]] = {
    PartitionFile.INFO: InfoFile,
    PartitionFile.TRANSACTIONS: TransactionsFile,
    PartitionFile.PRODUCERS: ProducersFile,
    PartitionFile.LEADER_EPOCHS: EpochsFile,
}
_STREAMS: Final = frozenset({PartitionFile.VALUES, PartitionFile.RECORDS})
_APPENDED: Final = frozenset(
    {
        PartitionFile.APPEND,
        PartitionFile.APPEND_JSONL,
        PartitionFile.APPEND_KV,
        PartitionFile.APPEND_RAW,
        PartitionFile.APPEND_BATCH,
    }
)


class Tree:
    """The tree of one store, through one set of options. Any thread may ask it for nodes."""

    def __init__(
        self, store: Store, options: TreeOptions, *, clock: Clock, sizes: SizeCache, control: ControlNodes
    ) -> None:
        self.context = TreeContext(store, options, clock=clock, sizes=sizes)
        self._control = control

    def child(self, parent: TreePath, name: str) -> Node:
        """Return the node of a name in a directory; raises `NotThereError` if there is none."""
        if isinstance(parent, RootPath):
            self.context.sources.refresh()
        try:
            return self.node(child(parent, name, self.context.store.topics.inventory.topics))
        except AmbiguousNameError as error:
            raise AmbiguousPathError(f"{parent}: {error}") from None
        except BadNameError as error:
            raise NotThereError(str(error)) from None

    def node(self, path: TreePath) -> Node:
        """Return the node at a path; raises `NotThereError`, and what opening the log raises."""
        match path:
            case OffsetPath() | TimePath():
                return self._records(path, self.context.sources.get(path.log))
            case PartitionFilePath(log, file):
                return self._partition_file(path, file, self.context.sources.get(log))
            case PartitionDirectoryPath(log, directory):
                return self._partition_directory(path, directory, self.context.sources.get(log))
            case SegmentPath(log, _, is_text):
                source = self.context.sources.get(log)
                return SegmentTextFile(path, source, self.context.sizes) if is_text else RawSegmentFile(path, source)
            case PartitionPath() | UnattachedPath():
                return PartitionNode(path, self.context.sources.get(path))
            case TopicPath(topic):
                self.context.sources.check_topic(topic)
                return TopicDirectory(path, self.context.sources)
            case ConfigPath(topic):
                self.context.sources.check_topic(topic.topic)
                return ConfigFile(path, self.context.store, topic.topic)
            case RootPath():
                return RootDirectory(self.context.sources, self.context.options)
            case _:
                return self._control.node(path, self.context)

    def _records(self, path: OffsetPath | TimePath, source: LogSource) -> Node:
        now_ms = self.context.clock.now_ms()
        asked = path.name.records if isinstance(path, OffsetPath) else path.name.times
        if isinstance(asked, RecordRange | TimeRange):
            return RangeFile(path, source, now_ms, self.context.sizes.held)
        return RecordFile(path, source, now_ms) if isinstance(path, OffsetPath) else TimeLink(path, source, now_ms)

    def _partition_file(self, path: PartitionFilePath, file: PartitionFile, source: LogSource) -> Node:
        if file in _STREAMS:
            return StreamFile(path, source, self.context.sizes)
        if file in _APPENDED:
            return AppendFile(path, source, self.context.clock)
        if file is PartitionFile.LOG_START_OFFSET:
            replicated = partial(self.context.store.high_watermark, source.topic, source.partition)
            return StartOffsetFile(path, source, replicated)
        if file is PartitionFile.RETENTION_PLAN:
            return RetentionPlanFile(path, source, self.context.clock, self.context.store)
        if file is PartitionFile.COMPACTION_PLAN:
            return CompactionPlanFile(path, source, self.context.clock, self.context.store)
        fact = _FACTS.get(file)
        if fact is None:
            raise NotThereError(f"{path}: there is no such view")
        return fact(path, source, self.context.clock)

    def _partition_directory(
        self, path: PartitionDirectoryPath, directory: PartitionDirectory, source: LogSource
    ) -> Node:
        match directory:
            case PartitionDirectory.OFFSET:
                return OffsetDirectory(path, source)
            case PartitionDirectory.BY_TIME:
                return TimeDirectory(path, source)
            case PartitionDirectory.SEGMENTS:
                return SegmentDirectory(path, source)
