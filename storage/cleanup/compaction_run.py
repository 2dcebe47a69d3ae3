"""The two passes of compaction over one log: mapping the keys of its dirty part, and filtering all of it.

What is kept goes group by group to a `Sink`, which writes it, or only counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from storage.cleanup.batch_filter import BatchFilter
from storage.cleanup.cleaned_transactions import CleanedTransactions
from storage.cleanup.compaction_planning import planned_segment
from storage.cleanup.compaction_report import CompactionReport, Tally
from storage.cleanup.latest_offsets import empty_map, fill_map, sound_batches
from storage.errors import CompactionError, CorruptBatchError, LogChangedError
from storage.segment.names import Kind
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.cleanup.cleaned_segments import CountedSegments
    from storage.cleanup.compaction_plan import CompactionPlan, PlannedSegment
    from storage.cleanup.pace import CleanerLimits, Pace
    from storage.config import TopicConfig
    from storage.log.producers.state import ProducerState
    from storage.log.view import LogView
    from storage.segment.segment import Segment

K = TypeVar("K", bound="CountedSegments")


class Sink(Protocol[K]):
    """The destination of the kept records."""

    def begin(self, base_offset: int, limit_bytes: int) -> K:
        """Begin the segments for a group whose first segment begins at the offset."""

    def put_in_place(self, kept: K, old: Sequence[Segment]) -> None:
        """Replace the group's segments by the finished ones."""

    def give_up(self, kept: K) -> None:
        """Discard the current group."""


class CompactionRun:
    """A run over a plan's segments, as `view` shows them.

    Its constructor raises `LogChangedError` if these differ. `producers` are those that the log knows. Horizons count
    from `now_ms`, however old the plan is.
    """

    def __init__(
        self,
        plan: CompactionPlan,
        view: LogView,
        config: TopicConfig,
        producers: Iterable[ProducerState],
        limits: CleanerLimits,
        pace: Pace,
        *,
        now_ms: int,
    ) -> None:
        if not plan.is_applicable:
            raise CompactionError(f"{plan.log} is not compacted: {plan.reason}")
        if not config.compact:
            raise LogChangedError(f"the cleanup.policy of {plan.log} no longer says that it is compacted")
        segments = view.segments[: len(plan.segments)]
        ends = [segment.base_offset for segment in view.segments[1 : len(plan.segments) + 1]]
        if tuple(map(planned_segment, segments, ends)) != plan.segments:
            raise LogChangedError(f"the segments of {plan.log} are no longer those of the plan")
        self._plan = plan
        self._view = view
        self._config = config
        self._producers = tuple(producers)
        self._limits = limits
        self._pace = pace
        self._now_ms = now_ms
        self._segments = {segment.base_offset: segment for segment in segments}

    def over_groups(self, sink: Sink[K]) -> CompactionReport:
        """Go through the log and pass the kept records to the sink."""
        plan, pace, tally = self._plan, self._pace, Tally()
        pace.check()
        offsets = empty_map(self._limits.map_bytes, self._limits.map_load_factor)
        fill_map(offsets, self._view, plan.first_dirty_offset, plan.uncleanable_offset, pace)
        end_offset = max(offsets.latest_offset + 1, plan.first_dirty_offset)
        planned = {each.base_offset: each for each in plan.segments if each.base_offset < end_offset}
        last = plan.segments[len(planned) - 1]
        batch_filter = BatchFilter(
            offsets,
            CleanedTransactions(self._view.aborted(plan.segments[0].base_offset, last.end_offset)),
            self._producers,
            self._config,
            now_ms=self._now_ms,
            end_offset=plan.uncleanable_offset,
            tally=tally,
        )
        after_bytes = segments_after = 0
        for group in plan.groups:
            # What comes after the map's end is left for another run, and so may be a part of a group.
            reached = [planned[base_offset] for base_offset in group if base_offset in planned]
            if not reached:
                break
            kept = self._keep(reached, batch_filter, sink)
            after_bytes += kept.size_bytes
            segments_after += len(kept.bases)
        return CompactionReport(
            log=plan.log,
            start_offset=plan.first_dirty_offset,
            first_dirty_offset=end_offset,
            segments_before=len(planned),
            segments_after=segments_after,
            before_bytes=sum(each.size_bytes for each in planned.values()),
            after_bytes=after_bytes,
            read_bytes=pace.read_bytes,
            written_bytes=pace.written_bytes,
            map_keys=offsets.count,
            map_load=offsets.count / offsets.keys_max,
            is_map_full=end_offset < plan.uncleanable_offset,
            duration_s=pace.elapsed_s,
            records=tally,
        )

    def _keep(self, group: Sequence[PlannedSegment], batch_filter: BatchFilter, sink: Sink[K]) -> K:
        """Finish a group, or leave it as it was."""
        size_bytes = sum(planned.size_bytes for planned in group)
        kept = sink.begin(group[0].base_offset, max(size_bytes, self._config.segment_bytes))
        try:
            for planned in group:
                self._clean(planned, batch_filter, kept)
            kept.finish(group[-1].modified_ms)
        except BaseException:
            sink.give_up(kept)
            raise
        sink.put_in_place(kept, [self._segments[planned.base_offset] for planned in group])
        return kept

    def _clean(self, planned: PlannedSegment, batch_filter: BatchFilter, kept: CountedSegments) -> None:
        segment = self._segments[planned.base_offset]
        keeps_tombstones = planned.modified_ms > self._legacy_horizon_ms
        pace = self._pace

        def flush() -> None:
            pace.wrote(kept.flush())

        with segment.open_log() as file:
            scan = LogScan(file, end=planned.size_bytes, window_bytes=pace.buffer_bytes)
            try:
                for batch in sound_batches(pace.passing(scan, flush), planned.base_offset, planned.end_offset):
                    found = batch_filter.kept(batch, keeps_legacy_tombstones=keeps_tombstones)
                    if found is not None:
                        kept.add(batch, found)
            except CorruptBatchError as error:
                raise error.located(path=segment.path(Kind.LOG)) from None
            if scan.position != planned.size_bytes:
                raise CompactionError(
                    f"{planned.size_bytes - scan.position} bytes at the segment's end are no batch, and would be lost",
                    path=segment.path(Kind.LOG),
                    position=scan.position,
                )

    @property
    def _legacy_horizon_ms(self) -> int:
        """Tombstones of old formats go from segments that were written last up to this time."""
        clean = [each for each in self._plan.segments if each.base_offset < self._plan.first_dirty_offset]
        return clean[-1].modified_ms - self._config.delete_retention_ms if clean else 0
