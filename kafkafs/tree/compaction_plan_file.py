"""`compaction.plan`: what compaction would make of a log now, and why.

What plans is loaded when a plan is asked for, as few commands ask for one.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath
from kafkafs.tree.log_fact import LogFact
from storage.errors import LogChangedError
from storage.log_dir import OffsetCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource
    from storage.cleanup import CompactionPlan
    from storage.files import Access
    from storage.log import LogView
    from storage.store import StoreCompaction


class CompactionPlanFile(LogFact):
    """The file `compaction.plan` of a log: its plan, in lines. Only partitions of topics are compacted.

    It says to the byte what would be left, which takes reading the log. For a log larger than a `stat` may read it
    names the command that does.
    """

    checkpoints = (OffsetCheckpoint.FIRST_DIRTY, OffsetCheckpoint.HIGH_WATERMARK)

    def __init__(self, path: PartitionFilePath, source: LogSource, context: TreeContext) -> None:
        super().__init__(path, source, context.clock)
        self._context = context
        self._store = context.store

    def access(self) -> Access:
        """Return the access to the log, to the checkpoints of cleaner and replication, and to the topic's settings."""
        return self._context.narrowed_by_settings(super().access())

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size, unless that takes reading the log."""
        return None if self.takes_long() else super().size_bytes(view)

    def takes_long(self) -> bool:
        """True if the plan says what would be left, for which the log is read."""
        from storage.cleanup import COMPACTION_SETTINGS

        config = self._store.topics.config(self._source.topic) if isinstance(self._source.path, PartitionPath) else None
        return config is not None and config.compact and not config.why_unknown(*COMPACTION_SETTINGS)

    def text(self, view: LogView) -> bytes:
        """The lines."""
        from storage.cleanup import plan_compaction
        from storage.store import StoreCompaction

        source = self._source
        if not isinstance(source.path, PartitionPath):
            plan = plan_compaction(
                source.directory.name, view, None, checkpoint=None, high_watermark=0, now_ms=self._clock.now_ms()
            )
            return _text(plan.lines())
        compactions = StoreCompaction(self._store, self._clock, wait=sleep)
        plan = compactions.plan(source.topic, source.partition, view)
        return _text([*plan.lines(), *self._gain(compactions, plan)])

    def _gain(self, compactions: StoreCompaction, plan: CompactionPlan) -> Iterator[str]:
        if not plan.is_applicable:
            return
        source = self._source
        size_bytes = sum(segment.size_bytes for segment in plan.segments)
        if size_bytes > source.options.counted_bytes_max:
            yield f"what would be left takes reading {size_bytes} bytes: kafkafs compact STORE {source.topic} --dry-run"
            return
        try:
            yield compactions.estimate(source.topic, source.partition, plan).sentence
        except LogChangedError:
            yield "the log has changed meanwhile: read this again"


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
