"""Compacts one log as a plan says, or finds out what that would leave.

Each group of segments is written beside the log and put in place before the next one begins. However a run ends, its
finished groups are sound, and the next run begins at the same checkpoint. Which log is next, keeping the checkpoint,
and removing the old files when it is time, are left to the store.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from storage.cleanup.cleaned_segments import CleanedSegments, CountedSegments, remove_cleaned
from storage.cleanup.compaction_run import CompactionRun
from storage.cleanup.pace import Pace
from storage.errors import CompactionError, LogChangedError, TooManySegmentsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from storage.cleanup.compaction_plan import CompactionPlan
    from storage.cleanup.compaction_report import CompactionReport
    from storage.cleanup.pace import CleanerLimits
    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.log.log import Log
    from storage.log.producers.state import ProducerState
    from storage.log.view import LogView
    from storage.segment.segment import Segment
    from storage.throttle import Throttle


class Cleaner:
    """The common state of all runs.

    `is_stopped` is asked often, and ends a run by a `CompactionStoppedError`. Any number of threads may use a cleaner,
    each for another log.
    """

    def __init__(
        self,
        clock: Clock,
        limits: CleanerLimits,
        throttle: Throttle,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._throttle = throttle
        self._is_stopped = is_stopped

    def compact(self, log: Log, plan: CompactionPlan, removing: Callable[[list[str]], None]) -> CompactionReport:
        """Replace the segments of a plan by their kept records. No other cleaner may work on the log meanwhile.

        As soon as segments are replaced, the cleaner calls `removing` with the names of their files, which the caller
        removes later. Raises `LogChangedError`, having changed nothing, if the log has changed since the plan, and
        `CompactionError` or another `StorageError` if it cannot be compacted. Finished groups stay replaced, the
        current one is discarded, and the caller must not advance the log's checkpoint.
        """
        try:
            run = self._run(plan, log.view, log.config, log.producers.states())
            remove_cleaned(log.directory)
            return run.over_groups(_Replacing(log, removing))
        except OSError as error:
            raise _failure(plan, error) from error

    def estimate(
        self, view: LogView, plan: CompactionPlan, config: TopicConfig, producers: Iterable[ProducerState]
    ) -> CompactionReport:
        """Return exactly what `compact` would report. Everything is read and encoded, and nothing is written."""
        try:
            return self._run(plan, view, config, producers).over_groups(_Counting())
        except OSError as error:
            raise _failure(plan, error) from error

    def _run(
        self, plan: CompactionPlan, view: LogView, config: TopicConfig, producers: Iterable[ProducerState]
    ) -> CompactionRun:
        pace = Pace(self._clock, self._throttle, self._is_stopped, self._limits.buffer_bytes)
        return CompactionRun(plan, view, config, producers, self._limits, pace, now_ms=self._clock.now_ms())


class _Replacing:
    """Writes the kept records, and puts them into the log."""

    def __init__(self, log: Log, removing: Callable[[list[str]], None]) -> None:
        self._log = log
        self._removing = removing

    def begin(self, base_offset: int, limit_bytes: int) -> CleanedSegments:
        kept = CleanedSegments(self._log.directory, self._log.config, limit_bytes=limit_bytes)
        try:
            kept.begin(base_offset)
        except BaseException:
            self.give_up(kept)
            raise
        return kept

    def put_in_place(self, kept: CleanedSegments, old: Sequence[Segment]) -> None:
        try:
            deleted = self._log.replace(old, kept.bases)
        except (LogChangedError, TooManySegmentsError):
            self.give_up(kept)
            raise
        self._removing(deleted)

    def give_up(self, kept: CleanedSegments) -> None:
        """Remove the written files, if possible; otherwise the next run does."""
        with suppress(OSError):
            kept.close()
            remove_cleaned(self._log.directory)


class _Counting:
    """Counts the kept records."""

    def begin(self, base_offset: int, limit_bytes: int) -> CountedSegments:
        kept = CountedSegments(limit_bytes)
        kept.begin(base_offset)
        return kept

    def put_in_place(self, kept: CountedSegments, old: Sequence[Segment]) -> None:
        pass

    def give_up(self, kept: CountedSegments) -> None:
        pass


def _failure(plan: CompactionPlan, error: OSError) -> CompactionError:
    return CompactionError(f"compacting {plan.log} failed: {error.strerror or error}", path=error.filename)
