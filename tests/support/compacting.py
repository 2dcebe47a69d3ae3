"""Running the cleaner over a log, for tests: with little around it, and with the model's view of the same log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from compaction_model import CompactedSegment, CompactionModel

from storage.cleanup.cleaner import Cleaner
from storage.cleanup.compaction_planning import plan_compaction
from storage.cleanup.pace import CleanerLimits
from storage.record.kernel.offset_map import SLOT_BYTES
from storage.testing.codec import decode_batches
from storage.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.cleanup.compaction_plan import CompactionPlan
    from storage.cleanup.compaction_report import CompactionReport
    from storage.clock import Clock
    from storage.log.log import Log

MANY_KEYS = 10_000
BUFFER_BYTES = 4096


class Compacting:
    """A cleaner for a log, with room for `keys_max` keys."""

    def __init__(
        self,
        clock: Clock,
        *,
        keys_max: int = MANY_KEYS,
        buffer_bytes: int = BUFFER_BYTES,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.keys_max = keys_max
        self.deleted: list[Path] = []
        self._clock = clock
        limits = CleanerLimits(map_bytes=(keys_max + 1) * SLOT_BYTES, map_load_factor=1.0, buffer_bytes=buffer_bytes)
        throttle = Throttle(clock, float("inf"), lambda _: None)
        self.cleaner = Cleaner(clock, limits, throttle, is_stopped=is_stopped)

    def plan(self, log: Log, checkpoint: int | None = None) -> CompactionPlan:
        """Return the present plan."""
        view, now_ms = log.view, self._clock.now_ms()
        return plan_compaction(
            "topic-0", view, log.config, checkpoint=checkpoint, high_watermark=view.end_offset, now_ms=now_ms
        )

    def compact(self, log: Log, plan: CompactionPlan) -> CompactionReport:
        """Do it; the files that are no longer needed are in `deleted`."""
        return self.cleaner.compact(
            log, plan, lambda names: self.deleted.extend(Path(log.directory.path_of(name)) for name in names)
        )

    def estimate(self, log: Log, plan: CompactionPlan) -> CompactionReport:
        """Return the report of an estimate."""
        return self.cleaner.estimate(log.view, plan, log.config, log.producers.states())

    def model(self, log: Log, plan: CompactionPlan) -> CompactionModel:
        """The model of the same, to be made before it is done."""
        return CompactionModel(
            segments_of(log),
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.uncleanable_offset,
            keys_max=self.keys_max,
            now_ms=plan.now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            producers={
                state.producer_id: (state.batches[-1].last_offset if state.batches else None, state.epoch)
                for state in log.producers.states()
            },
        )


def segments_of(log: Log) -> list[CompactedSegment]:
    """A log's segments as its files have them, decoded."""
    found = []
    for segment in log.view.segments:
        status = segment.log_status()
        assert status is not None
        with segment.open_log() as file:
            data = file.read_at(0, segment.size_bytes)
        found.append(CompactedSegment(segment.base_offset, status.modified_ms, tuple(decode_batches(data))))
    return found
