"""`retention.plan`: what retention would delete of a log now, and why.

What plans is loaded when a plan is asked for, as few commands ask for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath
from kafkafs.tree.log_fact import LogFact
from storage.log_dir import OffsetCheckpoint

if TYPE_CHECKING:
    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource
    from storage.files import Access
    from storage.log import LogView


class RetentionPlanFile(LogFact):
    """The file `retention.plan` of a log: its plan, in lines. Only partitions of topics are cleaned up."""

    checkpoints = (OffsetCheckpoint.HIGH_WATERMARK,)

    def __init__(self, path: PartitionFilePath, source: LogSource, context: TreeContext) -> None:
        super().__init__(path, source, context.clock)
        self._context = context

    def access(self) -> Access:
        """Return the access to the log, to the high watermark and to the topic's settings."""
        return self._context.narrowed_by_settings(super().access())

    def text(self, view: LogView) -> bytes:
        """The lines."""
        from storage.cleanup import plan_retention
        from storage.store import StoreRetention

        source = self._source
        if isinstance(source.path, PartitionPath):
            plan = StoreRetention(self._context.store, self._clock).plan(source.topic, source.partition, view)
        else:
            plan = plan_retention(source.directory.name, view, None, high_watermark=0, now_ms=self._clock.now_ms())
        return "".join(f"{line}\n" for line in plan.lines()).encode()
