"""`compaction.plan`: what compaction would make of a log now, and why.

What plans is loaded when a plan is asked for, as few commands ask for one.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.node import Attributes
from storage.errors import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.log_source import LogSource
    from storage.cleanup import CompactionPlan
    from storage.clock import Clock
    from storage.log import LogView
    from storage.store import Store, StoreCompaction


class CompactionPlanFile(LogFact):
    """The file `compaction.plan` of a log: its plan, in lines. Only partitions of topics are compacted.

    It says to the byte what would be left, which takes reading the log. For a log larger than a `stat` may read it
    names the command that does.
    """

    def __init__(self, path: PartitionFilePath, source: LogSource, clock: Clock, store: Store) -> None:
        super().__init__(path, source, clock)
        self._store = store

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size, unless that takes reading the log."""
        return None if self._reads_log() else super().size_bytes(view)

    def attributes(self) -> Attributes:
        """Report the size, unless that takes reading the log."""
        if not self._reads_log():
            return super().attributes()
        source = self._source
        return Attributes(size_bytes=None, modified_ms=source.modified_ms(source.log.view), access=source.access())

    def _reads_log(self) -> bool:
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
