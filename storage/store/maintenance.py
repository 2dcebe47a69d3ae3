"""The upkeep of a store that is open for writing, on a broker's schedules.

Segments are retained, logs compacted, flushed and checkpointed, producers forgotten, and what was deleted is removed. A
`Maintenance` does nothing by itself: a thread runs it, one thing after another, so that no log is worked on twice at
once. What fails for one log keeps nothing from the others, and is tried again when it is due again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from storage.cleanup.compaction_plan import dirtiest
from storage.cleanup.compaction_planning import COMPACTION_SETTINGS
from storage.cleanup.retention_plan import segments_text
from storage.errors import CompactionStoppedError, LogChangedError, StorageError, UnknownPartitionError, in_words
from storage.store.cleaning import StoreCompaction, StoreRetention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from storage.cleanup.compaction_plan import CompactionPlan
    from storage.clock import Clock
    from storage.log.log import Log
    from storage.log.readable_log import ReadableLog
    from storage.log_dir.checkpoints import Partition
    from storage.store.store import Store

REMOVAL_INTERVAL_S: Final = 1.0
FLUSH_INTERVAL_S: Final = 1.0
"""The interval at which a topic's `flush.ms` is checked. A broker checks it only if its own scheduler is set."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Job:
    """Something that is done again and again.

    `failures` counts each time that it failed, as a whole or for one log; it `is_failing` if the last time it did as a
    whole.
    """

    name: str
    interval_s: float
    due_s: float
    work: Callable[[Job], None] = field(repr=False)
    runs: int = 0
    failures: int = 0
    busy_s: float = 0.0
    is_failing: bool = False


@dataclass(slots=True)
class Totals:
    """The counts of what maintenance has done since the store was opened."""

    deleted_segments: int = 0
    deleted_bytes: int = 0
    compactions: int = 0
    compacted_bytes: int = 0
    freed_bytes: int = 0


class Maintenance:
    """The jobs of one store. One thread runs them; any may look at `jobs`, `totals` and `uncleanable`.

    `stopped` ends waiting and compacting; what is half done then is undone, or finished by the next run.
    """

    def __init__(self, store: Store, clock: Clock, stopped: Event) -> None:
        self.totals = Totals()
        self._store = store
        self._clock = clock
        self._stopped = stopped
        self._retention = StoreRetention(store, clock)
        self._compaction = StoreCompaction(store, clock, wait=stopped.wait, is_stopped=stopped.is_set)
        config = store.config
        begun_s = clock.elapsed_s() + config.log_initial_task_delay_ms / 1000
        flush_s = min(config.log_flush_scheduler_interval_ms / 1000, FLUSH_INTERVAL_S)
        checkpoint_s = config.replica_high_watermark_checkpoint_interval_ms / 1000
        expiration_s = config.producer_id_expiration_check_interval_ms / 1000
        cleaner_s = config.log_cleaner_backoff_ms / 1000
        self.jobs = (
            Job("removal", REMOVAL_INTERVAL_S, 0.0, self._remove),
            Job("flush", flush_s, begun_s, self._flush),
            Job("checkpoints", checkpoint_s, begun_s, lambda _: store.write_checkpoints()),
            Job("retention", config.log_retention_check_interval_ms / 1000, begun_s, self._retain),
            Job("producers", expiration_s, begun_s + expiration_s, self._expire_producers),
            *([Job("compaction", cleaner_s, begun_s, self._compact)] if config.log_cleaner_enable else []),
        )
        self._idle_plans_due_s = begun_s  # when logs that are not open are planned again

    @property
    def uncleanable(self) -> dict[Partition, Exception]:
        """The logs that are not compacted any more, and why."""
        return dict(self._compaction.failed)

    def run(self) -> None:
        """Do what is due when it is, until it is stopped."""
        while not self._stopped.wait(self.run_due()):
            pass

    def run_due(self) -> float:
        """Do what is due now; returns for how many seconds nothing will be."""
        for job in self.jobs:
            if self._stopped.is_set():
                return 0.0
            now_s = self._clock.elapsed_s()
            if now_s < job.due_s:
                continue
            job.due_s = now_s + job.interval_s
            self._do(job)
            job.runs += 1
            job.busy_s += self._clock.elapsed_s() - now_s
        return max(min(job.due_s for job in self.jobs) - self._clock.elapsed_s(), 0.0)

    def _do(self, job: Job) -> None:
        try:
            job.work(job)
        except (StorageError, OSError) as error:
            job.failures += 1
            if not job.is_failing:  # a full disk is no news every few seconds
                logger.error("%s failed: %s", job.name, in_words(error))  # noqa: TRY400 -- no user sees a traceback
            job.is_failing = True
        except Exception:
            job.failures += 1
            if not job.is_failing:
                logger.exception("%s ended with an error that kafkafs does not handle: this is a bug", job.name)
            job.is_failing = True
        else:
            job.is_failing = False

    # The jobs

    def _remove(self, _: Job) -> None:
        """Remove all that is due; raises the first error after the others had their turn."""
        removals = self._store.topics.removals
        errors: list[Exception] = []
        for doomed in removals.due(self._clock.now_ms()):
            try:
                removals.remove(doomed)
            except Exception as error:  # noqa: BLE001 -- raised below, and told by the caller
                errors.append(error)
        if errors:
            raise errors[0]

    def _flush(self, job: Job) -> None:
        for partition, log in self._open_logs():
            self._attempt(job, partition, log.flush_if_due)

    def _expire_producers(self, _: Job) -> None:
        for _partition, log in self._open_logs():
            log.expire_producers()

    def _retain(self, job: Job) -> None:
        for partition in self._store.topics.inventory.in_order():
            if self._stopped.is_set():
                return
            self._attempt(job, partition, partial(self._retain_one, partition))

    def _retain_one(self, partition: Partition) -> None:
        plan = self._on_log(partition).on_view(lambda view: self._retention.plan(*partition, view))
        for warning in plan.warnings:
            logger.debug("%s: %s", plan.log, warning)
        if not plan.is_due:
            return
        self._retention.apply(*partition, plan)
        self.totals.deleted_segments += len(plan.deleted)
        self.totals.deleted_bytes += plan.deleted_bytes
        logger.info(
            "%s: retention deleted %s, %d bytes; the log begins at offset %d",
            plan.log,
            segments_text(len(plan.deleted)),
            plan.deleted_bytes,
            plan.new_start_offset,
        )

    def _compact(self, job: Job) -> None:
        """Compact the dirtiest log; if there was one, there may be another, so the job is due again at once."""
        plans: dict[str, CompactionPlan] = {}
        places: dict[str, Partition] = {}
        for partition in self._compactable():
            if self._stopped.is_set():
                return
            self._attempt(job, partition, partial(self._plan_one, partition, plans, places))
        chosen = dirtiest(plans.values())
        if chosen is not None:
            partition = places[chosen.log]
            self._attempt(job, partition, partial(self._compact_one, job, partition))
            if partition in self._compaction.failed:
                job.due_s = self._clock.elapsed_s()

    def _compactable(self) -> Iterator[Partition]:
        """The logs that may be compacted and did not fail: those that are open, and now and then the others."""
        store = self._store
        open_logs = store.open_logs()
        now_s = self._clock.elapsed_s()
        with_idle = now_s >= self._idle_plans_due_s
        if with_idle:
            self._idle_plans_due_s = now_s + store.config.log_retention_check_interval_ms / 1000
        for partition in store.topics.inventory.in_order():
            if partition in self._compaction.failed or not (with_idle or partition in open_logs):
                continue
            config = store.topics.config(partition[0])
            if config.compact and not config.why_unknown(*COMPACTION_SETTINGS):
                yield partition

    def _plan_one(self, partition: Partition, plans: dict[str, CompactionPlan], places: dict[str, Partition]) -> None:
        plan = self._on_log(partition).on_view(lambda view: self._compaction.plan(*partition, view))
        plans[plan.log], places[plan.log] = plan, partition

    def _compact_one(self, job: Job, partition: Partition) -> None:
        plan = self._compaction.plan(*partition)  # of the log as it is once it is open
        if not plan.is_due:
            return
        report = self._compaction.apply(*partition, plan)
        if report.first_dirty_offset > plan.first_dirty_offset:
            job.due_s = self._clock.elapsed_s()
        self.totals.compactions += 1
        self.totals.compacted_bytes += report.before_bytes
        self.totals.freed_bytes += report.freed_bytes
        logger.info(
            "%s: compaction made %d bytes out of %d; the log is clean before offset %d",
            plan.log,
            report.after_bytes,
            report.before_bytes,
            report.first_dirty_offset,
        )

    # What they share

    def _on_log(self, partition: Partition) -> ReadableLog:
        """Return the log. One that is not open is only followed, so that planning opens no files."""
        log = self._store.written_logs().get(partition)
        return self._store.follow_partition(*partition) if log is None else log

    def _open_logs(self) -> Iterator[tuple[Partition, Log]]:
        for partition, log in self._store.written_logs().items():
            if not log.is_poisoned:
                yield partition, log

    def _attempt(self, job: Job, partition: Partition, work: Callable[[], object]) -> None:
        """Do something to one log. An error is logged, and the other logs get their turn."""
        try:
            work()
        except (UnknownPartitionError, FileNotFoundError):
            logger.debug("%s of %s-%d: it is gone", job.name, *partition)
        except (CompactionStoppedError, LogChangedError) as error:
            logger.debug("%s of %s-%d: %s", job.name, *partition, error)
        except (StorageError, OSError) as error:
            job.failures += 1
            logger.error("%s of %s-%d failed: %s", job.name, *partition, in_words(error))  # noqa: TRY400 -- see above
        except Exception:
            job.failures += 1
            logger.exception(
                "%s of %s-%d ended with an error that kafkafs does not handle: this is a bug", job.name, *partition
            )
