"""The retention of a store: what it would delete of which log, and deleting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cleanup.retention import apply_retention, plan_retention
from storage.errors import ReadOnlyStoreError
from storage.log.log import Log
from storage.log.readable_log import ReadableLog
from storage.log_dir.directory_names import DirectoryName

if TYPE_CHECKING:
    from pathlib import Path

    from storage.cleanup.retention_plan import RetentionPlan
    from storage.clock import Clock
    from storage.log.view import LogView
    from storage.store.store import Store


class Retentions:
    """What goes from a store by the settings of its topics, one log at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def plan(self, topic: str, partition: int, view: LogView | None = None) -> RetentionPlan:
        """What would be deleted now of the partition as the view shows it, or as it is; raises as `Store.log` does."""
        store = self._store
        if view is None:
            log = store.log(topic, partition)
            assert isinstance(log, ReadableLog)
            return log.on_view(lambda view: self.plan(topic, partition, view))
        return plan_retention(
            str(DirectoryName(topic, partition)),
            view,
            store.topics.config(topic),
            high_watermark=store.high_watermark(topic, partition, view),
            now_ms=self._clock.now_ms(),
        )

    def apply(self, topic: str, partition: int, plan: RetentionPlan) -> list[Path]:
        """Delete what a plan of the partition says; gives the files, renamed, that are removed when they are due.

        They are among the topics' `removals`. Raises as `cleanup.retention.apply_retention` does, and
        `ReadOnlyStoreError`.
        """
        store = self._store
        log = store.log(topic, partition)
        if not isinstance(log, Log):
            raise ReadOnlyStoreError("the store is open for reading only", path=store.log_dirs[0].path)
        deleted = apply_retention(log, plan)
        store.topics.removals.add_files(deleted, self._clock.now_ms() + log.config.file_delete_delay_ms)
        return deleted
