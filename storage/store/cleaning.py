"""Retention and compaction of the logs of a store: planning for one log, applying the plan, and remembering it.

The cleaner's checkpoint moves once the segments are in their places, so after a crash in between some of the log is
compacted again. A log whose compaction fails is left alone until the store is opened again; the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.cleanup.cleaner import Cleaner
from storage.cleanup.compaction_planning import plan_compaction
from storage.cleanup.pace import CleanerLimits
from storage.cleanup.retention import apply_retention, delete_unopened, plan_retention
from storage.errors import CompactionStoppedError, LogChangedError, StorageError
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.names import DirectoryName, DirectoryState
from storage.log_dir.removals import Doomed
from storage.segment.names import FileSuffix
from storage.throttle import Throttle
from storage.topics.checkpointing import PartitionCheckpoints, note_compaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from storage.cleanup.compaction_plan import CompactionPlan
    from storage.cleanup.compaction_report import CompactionReport
    from storage.cleanup.retention_plan import RetainedSegment, RetentionPlan
    from storage.clock import Clock
    from storage.files import Directory
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition
    from storage.store.store import Store


_FATES: Final = {
    DirectoryState.DELETE: "a broker removes it, after a restart at the latest",
    DirectoryState.STRAY: "no broker removes it; look into .kafkafs/unattached first",
    DirectoryState.FUTURE: "it takes the place of the partition once it has all records",
}
_BLOCK_BYTES: Final = 512


class LeftOver(NamedTuple):
    """Files that take space beside the logs of topics, which retention does not count: how much, and their fate."""

    path: str
    files: int
    size_bytes: int
    fate: str

    @property
    def sentence(self) -> str:
        """Return it as a line."""
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{self.path}: {files} beside the logs, {self.size_bytes} bytes: {self.fate}"


class StoreRetention:
    """Retention of the logs of a store, one log at a time, as the settings of their topics say."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def plan(self, topic: str, partition: int, view: LogView | None = None) -> RetentionPlan:
        """Plan the retention of the partition as the view shows it, or as it is; raises as `Store.log` does."""
        store = self._store
        if view is None:
            return store.log(topic, partition).on_view(lambda view: self.plan(topic, partition, view))
        return plan_retention(
            str(DirectoryName(topic, partition)),
            view,
            store.topics.config(topic),
            high_watermark=store.high_watermark(topic, partition, view),
            now_ms=self._clock.now_ms(),
        )

    def apply(self, topic: str, partition: int, plan: RetentionPlan) -> list[Doomed]:
        """Delete the segments of a plan; returns the renamed files, which are removed when they are due.

        They are among the topics' `removals`. Raises as `cleanup.retention.apply_retention` does, and
        `ReadOnlyStoreError`.
        """
        store = self._store
        log = store.log_to_write(topic, partition)
        deleted = [Doomed(log.directory, name) for name in apply_retention(log, plan)]
        store.topics.removals.add_files(deleted, self._clock.now_ms() + log.config.file_delete_delay_ms)
        return deleted

    def left_over(self, topics: Collection[str] = ()) -> Iterator[LeftOver]:
        """Yield what takes space beside the logs of these topics, or of all: files to be removed, and directories.

        The directories are those of no partition. The bytes are those on disk. What goes meanwhile is left out.
        """
        inventory = self._store.topics.inventory
        for topic in topics or inventory.topics:
            for partition in inventory.topics.get(topic, ()):
                directory = inventory.directory(topic, partition)
                if directory is not None:
                    fate = "a broker removes these files when it starts"
                    yield from _left_over(directory, lambda name: name.endswith(FileSuffix.DELETED), fate)
        for log_dir, name in inventory.unattached:
            if not topics or name.topic in topics:
                yield from _left_over(log_dir.directory.at(str(name)), lambda _: True, _FATES[name.state])

    def make_room(self, topic: str, partition: int, plan: RetentionPlan) -> tuple[RetainedSegment, ...]:
        """Delete what can be deleted of a plan without opening the log, and return these segments.

        For a disk that is too full to open it. A log that is open, and one whose opening did not fail, are left alone.
        """
        request = self._store.request(topic, partition)
        if request.is_clean or self._store.log_if_open(topic, partition) is not None:
            return ()
        return delete_unopened(request.directory, plan, request.recovery_point)


def _left_over(directory: Directory, is_left: Callable[[str], bool], fate: str) -> Iterator[LeftOver]:
    """Yield one for the files of a directory that are left over, unless there are none."""
    try:
        statuses = [directory.status(name) for name in directory.names() if is_left(name)]
    except OSError:  # it is gone, or says so where it is read
        return
    found = [status for status in statuses if status is not None]
    # Indexes are as large as they may become, and take less.
    taken = (min(each.size_bytes, each.disk_blocks * _BLOCK_BYTES) for each in found if each.is_file)
    if found:
        yield LeftOver(str(directory), len(found), sum(taken), fate)


class StoreCompaction:
    """Compaction of the logs of a store, one log at a time, within the limits of the store's settings.

    `wait` returns after so many seconds, or before; `is_stopped` ends a run. `failed` are the logs that could not be
    compacted, and why.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        wait: Callable[[float], object],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.failed: dict[Partition, Exception] = {}
        self._store = store
        self._clock = clock
        throttle = Throttle(clock, store.config.log_cleaner_io_bytes_per_second_max, wait)
        self._cleaner = Cleaner(clock, CleanerLimits.of(store.config), throttle, is_stopped=is_stopped)

    def plan(self, topic: str, partition: int, view: LogView | None = None) -> CompactionPlan:
        """Plan the compaction of the partition as the view shows it, or as it is; raises as `Store.log` does."""
        store = self._store
        if view is None:
            return store.log(topic, partition).on_view(lambda view: self.plan(topic, partition, view))
        _, log_dir = store.topics.location(topic, partition)
        return plan_compaction(
            str(DirectoryName(topic, partition)),
            view,
            store.topics.config(topic),
            checkpoint=log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get((topic, partition)),
            high_watermark=store.high_watermark(topic, partition, view),
            now_ms=self._clock.now_ms(),
            is_cleaner_enabled=store.config.log_cleaner_enable,
        )

    def estimate(self, topic: str, partition: int, plan: CompactionPlan) -> CompactionReport:
        """Return exactly what `apply` would report. The log is read for it, and nothing is changed."""
        log = self._store.log(topic, partition)
        return self._cleaner.estimate(log.view, plan, log.config, log.producers.states())

    def apply(self, topic: str, partition: int, plan: CompactionPlan) -> CompactionReport:
        """Compact the partition as the plan says.

        Raises `LogChangedError`, having changed nothing, if the log has changed since the plan; otherwise as
        `Cleaner.compact` does, and then the log counts as failed unless it was only stopped.
        """
        store = self._store
        log = store.log_to_write(topic, partition)
        _, log_dir = store.topics.location(topic, partition)
        delay_ms = log.config.file_delete_delay_ms

        def removing(names: list[str]) -> None:
            doomed = [Doomed(log.directory, name) for name in names]
            store.topics.removals.add_files(doomed, self._clock.now_ms() + delay_ms)

        # Before offsets may lack, so that recovery does not take that for damage.
        note_compaction({(topic, partition): log_dir})
        try:
            report = self._cleaner.compact(log, plan, removing)
        except (CompactionStoppedError, LogChangedError):
            raise
        except (StorageError, OSError) as error:
            self.failed[topic, partition] = error
            raise
        PartitionCheckpoints(log_dir, (topic, partition)).move_first_dirty(report.first_dirty_offset)
        return report
