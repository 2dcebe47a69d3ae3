"""The nodes of a log's views: a maker for each row of the table that is in a partition."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkafs.locator.views import Kind, View
from kafkafs.tree.append_file import AppendFile
from kafkafs.tree.compaction_plan_file import CompactionPlanFile
from kafkafs.tree.damage_files import DamageDirectory, DamagedRangeFile, DamageFile
from kafkafs.tree.epochs_file import EpochsFile
from kafkafs.tree.info_file import InfoFile
from kafkafs.tree.offset_directory import OffsetDirectory
from kafkafs.tree.producers_file import ProducersFile
from kafkafs.tree.range_file import RangeFile
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.retention_plan_file import RetentionPlanFile
from kafkafs.tree.segment_files import SegmentDirectory, SegmentTextFile, segment_node
from kafkafs.tree.start_offset_file import StartOffsetFile
from kafkafs.tree.stream_file import StreamFile
from kafkafs.tree.time_views import TimeDirectory, TimeLink
from kafkafs.tree.transactions_file import TransactionsFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkafs.locator.paths import (
        DamagedRangePath,
        OffsetPath,
        PartitionDirectoryPath,
        PartitionFilePath,
        SegmentPath,
        TimePath,
    )
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Node

    ViewPath: TypeAlias = (
        PartitionDirectoryPath | PartitionFilePath | OffsetPath | TimePath | SegmentPath | DamagedRangePath
    )
    _Maker: TypeAlias = Callable[[Any, LogSource, TreeContext], Node]  # of paths of this view


def view_node(path: ViewPath, source: LogSource, context: TreeContext) -> Node:
    """Return the node of a view; raises `NotThereError`, and what its log raises."""
    return MAKERS[path.view](path, source, context)


def _range(path: OffsetPath | TimePath, source: LogSource, context: TreeContext) -> Node:
    return RangeFile(path, source, context.clock.now_ms(), context.sizes.held)


def _start_offset(path: PartitionFilePath, source: LogSource, context: TreeContext) -> Node:
    return StartOffsetFile(path, source, partial(context.store.high_watermark, source.topic, source.partition))


_OF_KIND: Final[Mapping[Kind, _Maker]] = {
    Kind.STREAM: lambda path, source, context: StreamFile(path, source, context.sizes),
    Kind.INPUT: lambda path, source, context: AppendFile(path, source, context.clock),
}
_PLANS: Final[Mapping[View, _Maker]] = {
    View.RETENTION_PLAN: RetentionPlanFile,
    View.COMPACTION_PLAN: CompactionPlanFile,
}
MAKERS: Final[Mapping[View, _Maker]] = MappingProxyType(
    {view: _OF_KIND[view.kind] for view in View if view.kind in _OF_KIND}
    | dict(_PLANS)
    | {
        View.OFFSET: lambda path, source, context: OffsetDirectory(path, source, context.clock.now_ms()),
        View.RECORD: lambda path, source, context: RecordFile(path, source, context.clock.now_ms()),
        View.RECORD_RANGE: _range,
        View.BY_TIME: lambda path, source, context: TimeDirectory(path, source, context.clock.now_ms()),
        View.TIME: lambda path, source, context: TimeLink(path, source, context.clock.now_ms()),
        View.TIME_RANGE: _range,
        View.SEGMENTS: lambda path, source, context: SegmentDirectory(path, source, context.sizes),
        View.SEGMENT: lambda path, source, _: segment_node(path, source),
        View.SEGMENT_TEXT: lambda path, source, context: SegmentTextFile(path, source, context.sizes),
        View.INFO: lambda path, source, context: InfoFile(path, source, context.clock),
        View.LOG_START_OFFSET: _start_offset,
        View.TRANSACTIONS: lambda path, source, context: TransactionsFile(path, source, context.clock),
        View.PRODUCERS: lambda path, source, context: ProducersFile(path, source, context.clock),
        View.LEADER_EPOCHS: lambda path, source, context: EpochsFile(path, source, context.clock),
        View.DAMAGE_LIST: lambda path, source, context: DamageFile(path, source, context.clock),
        View.DAMAGE: lambda path, source, _: DamageDirectory(path, source),
        View.DAMAGED_RANGE: lambda path, source, _: DamagedRangeFile(path, source),
    }
)
"""The rows of a kind in `_OF_KIND` need no maker of their own."""
