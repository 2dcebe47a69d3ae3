"""A partition's log compacted into a built store: the cleaner reads the one and writes the other.

The copy has the records, offsets and transactions that the cleaner would leave of the log itself. Records that the
cleaner does not touch are copied: the active segment, records that are too young, and those after an open transaction
or the high watermark. If the offset map has no room for all of the log, the copy is compacted again until it is clean.
"""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from storage.cleanup.batch_filter import KeptBatch
from storage.cleanup.cleaner import Cleaner
from storage.cleanup.compaction_planning import plan_compaction
from storage.cleanup.compaction_report import Tally
from storage.cleanup.compaction_run import CompactionRun
from storage.cleanup.pace import CleanerLimits, Pace
from storage.clock import Clock
from storage.errors import CompactionError
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.names import DirectoryName
from storage.rewrite.log_copier import LogCopier
from storage.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.cleanup.compaction_plan import CompactionPlan
    from storage.cleanup.compaction_report import CompactionReport
    from storage.config import TopicConfig
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition
    from storage.rewrite.store_builder import StoreBuilder
    from storage.store.store import Store


def copy_compacted(
    store: Store,
    build: StoreBuilder,
    partition: Partition,
    clock: Clock,
    *,
    rolls: bool,
    wait: Callable[[float], object],
) -> None:
    """Compact a partition of a read-only store into a built one.

    With `rolls` the active segment is compacted too. `wait` waits for so many seconds at most. Raises a `StorageError`
    if the log cannot be compacted or read.
    """
    with build.attempt(partition) as directory:
        copier = LogCopier(store, build, partition, directory, rolls=rolls)
        try:
            _CompactedCopy(store, copier, build, clock, wait).make()
        finally:
            copier.builder.close()


class _CompactedCopy:
    def __init__(
        self, store: Store, copier: LogCopier, build: StoreBuilder, clock: Clock, wait: Callable[[float], object]
    ) -> None:
        self._store = store
        self._copier = copier
        self._clock = _RunClock(clock, build.begun_ms)
        self._limits = CleanerLimits.of(store.config)
        self._throttle = Throttle(clock, store.config.log_cleaner_io_bytes_per_second_max, wait)
        self._is_known = build.topics[copier.partition[0]].known.is_complete
        self._checkpoint = self._known_checkpoint()
        self._reports: list[CompactionReport] = []

    def make(self) -> None:
        copier = self._copier
        plan = self._plan(copier.view)
        cleaned = 0
        if plan.is_applicable:
            report = self._run(plan)
            self._add_report(report)
            cleaned = report.segments_before
        self._copy_rest(cleaned)
        copier.finish()
        if self._reports and self._reports[-1].is_map_full:
            self._clean_on()
        copier.put(self._checkpoint, self._stats(plan))

    def _known_checkpoint(self) -> int | None:
        _, log_dir = self._store.topics.location(*self._copier.partition)
        return log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get(self._copier.partition)

    def _plan(self, view: LogView) -> CompactionPlan:
        config: TopicConfig | None = self._copier.config if self._is_known else None
        return plan_compaction(
            str(DirectoryName(*self._copier.partition)),
            view,
            config,
            checkpoint=self._checkpoint,
            high_watermark=self._store.high_watermark(*self._copier.partition, view),
            now_ms=self._clock.now_ms(),
        )

    def _run(self, plan: CompactionPlan) -> CompactionReport:
        """Compact the log once into the copy; the log itself stays as it is."""
        copier = self._copier
        pace = Pace(self._clock, self._throttle, lambda: False, self._limits.buffer_bytes)
        run = CompactionRun(
            plan, copier.view, copier.config, copier.producers, self._limits, pace, now_ms=self._clock.now_ms()
        )
        return run.over_groups(copier.builder)

    def _copy_rest(self, cleaned: int) -> None:
        """Copy the segments after the compacted ones without changes."""
        copier, builder = self._copier, self._copier.builder
        for part in list(copier.slices())[cleaned:]:
            builder.cut(part.segment.base_offset, limit_bytes=max(part.segment.size_bytes, 1))
            for batch, aborted, modified_ms in copier.batches(part):
                kept = KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True, aborted=aborted)
                builder.add(batch, kept, modified_ms)

    def _clean_on(self) -> None:
        """Compact the copy in place until it is clean."""
        copier = self._copier
        rng = random.Random(0)  # noqa: S311 -- nothing is rolled for its age
        parts = open_sound_log(
            self._clock,
            copier.directory,
            copier.config,
            rng=rng,
            start_offset=copier.view.start_offset,
            producer_expiration_ms=self._store.config.producer_id_expiration_ms,
        )
        log = Log(self._clock, copier.directory, copier.config, parts, rng=rng)
        cleaner = Cleaner(self._clock, self._limits, self._throttle)
        try:
            while (plan := self._plan(log.view)).is_applicable:
                before = plan.first_dirty_offset
                report = cleaner.compact(log, plan, self._remove)
                if report.first_dirty_offset <= before:
                    raise CompactionError(f"a map of {self._limits.map_bytes} bytes has no room for one batch's keys")
                self._add_report(report)
        finally:
            log.close()
        copier.builder.size_bytes = sum(segment.size_bytes for segment in log.view.segments)

    def _add_report(self, report: CompactionReport) -> None:
        self._reports.append(report)
        self._checkpoint = report.first_dirty_offset

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self._copier.directory.remove(name)

    def _stats(self, plan: CompactionPlan) -> dict[str, Any]:
        """Return the stats. A record that several runs have read counts once."""
        records, kept = Tally(), 0
        for report in self._reports:
            tally = report.records
            fresh = {name: value + getattr(records, name) for name, value in asdict(tally).items()}
            records = replace(Tally(**fresh), read=records.read + tally.read - kept, kept=tally.kept)
            kept = tally.kept
        is_applied = bool(self._reports)
        return {
            "verdict": plan.verdict.value,
            "reason": plan.reason,
            "isApplied": is_applied,
            "beforeBytes": self._copier.size_bytes,
            "afterBytes": self._copier.builder.size_bytes,
            "recordsRead": records.read,
            "recordsKept": records.kept,
            "superseded": records.superseded,
            "keyless": records.keyless,
            "expired": records.expired,
            "aborted": records.aborted,
            "markers": records.markers,
            "firstDirtyOffset": self._checkpoint,
            "runs": len(self._reports),
        }


class _RunClock(Clock):
    """A clock whose time of day is that at which a run began, so that all attempts of it give equal bytes."""

    def __init__(self, clock: Clock, begun_ms: int) -> None:
        self._clock = clock
        self._begun_ms = begun_ms

    def now_ms(self) -> int:
        """Return when the run began."""
        return self._begun_ms

    def elapsed_s(self) -> float:
        """Return seconds as they pass."""
        return self._clock.elapsed_s()
