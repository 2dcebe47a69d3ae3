"""Makes a `CompactionPlan`: the clean, the dirty and the uncleanable part of a log.

Only the sizes and times of segments are looked at, and no record. The rules, and how they count, are a broker's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.cleanup.compaction_plan import Boundary, CompactionPlan, PlannedSegment, Verdict, groups_of
from storage.clock import duration_text
from storage.errors import missing_file
from storage.segment.names import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.config import TopicConfig
    from storage.log.view import LogView
    from storage.segment.segment import Segment


_POLICY: Final = "cleanup.policy"
COMPACTION_SETTINGS: Final = (
    _POLICY,
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "segment.bytes",
    "segment.index.bytes",
)
"""The settings that decide what is compacted, and into what; while one of them is unknown nothing is."""


class _Limit(NamedTuple):
    offset: int
    boundary: Boundary


def plan_compaction(
    log: str,
    view: LogView,
    config: TopicConfig | None,
    *,
    checkpoint: int | None,
    high_watermark: int,
    now_ms: int,
    is_cleaner_enabled: bool = True,
) -> CompactionPlan:
    """Plan the compaction of a log, which is replicated up to the high watermark.

    `config` is None for a log that is no topic's partition, which is not compacted; `checkpoint` is the cleaner's, None
    if there is none. No log is due unless the broker has its cleaner enabled. Raises `FileNotFoundError` if segments of
    the view are gone: retry with a newer view.
    """
    if config is None:
        return CompactionPlan(log=log, now_ms=now_ms, verdict=Verdict.SETTINGS_UNKNOWN, checkpoint=checkpoint)
    unknown = config.why_unknown(*COMPACTION_SETTINGS if config.compact else (_POLICY,))
    if unknown:
        return CompactionPlan(
            log=log, now_ms=now_ms, verdict=Verdict.SETTINGS_UNKNOWN, checkpoint=checkpoint, unknown=unknown
        )
    if not config.compact:
        return CompactionPlan(log=log, now_ms=now_ms, verdict=Verdict.NOT_COMPACTED, checkpoint=checkpoint)
    if not view.segments:
        return CompactionPlan(log=log, now_ms=now_ms, verdict=Verdict.NOTHING_DIRTY, checkpoint=checkpoint)
    warnings: list[str] = []
    first_dirty_offset = _first_dirty_offset(view, checkpoint, config, warnings)
    limit = _limit(view, first_dirty_offset, config, high_watermark, now_ms, warnings)
    segments = _planned(view, limit.offset)
    clean_bytes = sum(each.size_bytes for each in segments if each.base_offset < first_dirty_offset)
    dirty = [each for each in segments if each.end_offset > min(first_dirty_offset, limit.offset)]
    dirty_bytes = sum(each.size_bytes for each in dirty)
    overdue_ms = _overdue_ms(view, first_dirty_offset, config, now_ms)
    plan = CompactionPlan(
        log=log,
        now_ms=now_ms,
        verdict=Verdict.DIRTY,
        checkpoint=checkpoint,
        first_dirty_offset=first_dirty_offset,
        uncleanable_offset=limit.offset,
        boundary=limit.boundary,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        min_dirty_ratio=config.min_cleanable_dirty_ratio,
        overdue_ms=overdue_ms,
        segments=segments if dirty_bytes else (),
        groups=groups_of(segments, config) if dirty_bytes else (),
        warnings=tuple(warnings),
    )
    return _judged(plan) if is_cleaner_enabled else replace(plan, verdict=Verdict.CLEANER_DISABLED)


def _judged(plan: CompactionPlan) -> CompactionPlan:
    if not plan.dirty_bytes:
        verdict = Verdict.NOTHING_DIRTY
    elif plan.dirty_ratio > plan.min_dirty_ratio:
        verdict = Verdict.DIRTY
    else:
        verdict = Verdict.OVERDUE if plan.overdue_ms > 0 else Verdict.TOO_CLEAN
    return replace(plan, verdict=verdict)


def _first_dirty_offset(view: LogView, checkpoint: int | None, config: TopicConfig, warnings: list[str]) -> int:
    """Return where the clean part ends. All is dirty again if the checkpoint cannot be right."""
    if checkpoint is None:
        return view.start_offset
    if checkpoint < view.start_offset:
        if not config.delete:  # which moves the start past the checkpoint as a matter of course
            warnings.append(
                f"the cleaner's checkpoint {checkpoint} does not count: the log starts at {view.start_offset}"
            )
        return view.start_offset
    if checkpoint > view.end_offset:
        warnings.append(f"the cleaner's checkpoint {checkpoint} does not count: the log ends at {view.end_offset}")
        return view.start_offset
    return checkpoint


def _limit(
    view: LogView,
    first_dirty_offset: int,
    config: TopicConfig,
    high_watermark: int,
    now_ms: int,
    warnings: list[str],
) -> _Limit:
    """Return where compaction has to stop: at the first segment that is not settled yet."""
    active = view.segments[-1]
    limits = [
        _Limit(active.base_offset, Boundary.ACTIVE_SEGMENT),
        _Limit(high_watermark, Boundary.HIGH_WATERMARK),
        _Limit(view.last_stable_offset, Boundary.OPEN_TRANSACTION),
    ]
    lag_ms = config.min_compaction_lag_ms
    for segment in _from(view.segments[:-1], first_dirty_offset) if lag_ms > 0 else ():
        age_timestamp = segment.age_timestamp
        if age_timestamp > now_ms - lag_ms:
            if age_timestamp > now_ms:
                warnings.append(
                    f"of the segment at {segment.base_offset} the largest timestamp, {age_timestamp}, lies in the "
                    f"future, by {duration_text(age_timestamp - now_ms)}, from where min.compaction.lag.ms counts"
                )
            limits.append(_Limit(segment.base_offset, Boundary.COMPACTION_LAG))
            break
    limit = min(limits, key=lambda each: each.offset)
    # A clean part does not become dirty by what follows it.
    offset = max(limit.offset, min(first_dirty_offset, active.base_offset))
    begun = [segment for segment in view.segments if segment.base_offset <= offset]
    return _Limit(begun[-1].base_offset if begun else view.segments[0].base_offset, limit.boundary)


def _planned(view: LogView, limit: int) -> tuple[PlannedSegment, ...]:
    """The segments before the limit, at which one begins."""
    planned = []
    for segment, following in zip(view.segments, view.segments[1:], strict=False):
        if segment.base_offset >= limit:
            break
        planned.append(planned_segment(segment, following.base_offset))
    return tuple(planned)


def planned_segment(segment: Segment, end_offset: int) -> PlannedSegment:
    """A segment as it is now; raises `FileNotFoundError` if it is gone."""
    size_bytes = segment.size_bytes
    status = segment.log_status()
    if status is None:
        raise missing_file(segment.path(Kind.LOG))
    offset_index, time_index = (segment.own_files.status(kind) for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX))
    device, inode = status.identity
    return PlannedSegment(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size_bytes=size_bytes,
        offset_index_bytes=offset_index.size_bytes if offset_index else 0,
        time_index_bytes=time_index.size_bytes if time_index else 0,
        modified_ms=status.modified_ms,
        device=device,
        inode=inode,
    )


def _overdue_ms(view: LogView, first_dirty_offset: int, config: TopicConfig, now_ms: int) -> int:
    """Return by how long the oldest dirty segment is overdue, 0 if it is not."""
    latest_ms = now_ms - config.max_compaction_lag_ms
    if latest_ms <= 0:
        return 0
    first_timestamps = (segment.first_timestamp for segment in _from(view.segments[:-1], first_dirty_offset))
    oldest_ms = min((timestamp for timestamp in first_timestamps if timestamp > 0), default=now_ms)
    return max(latest_ms - oldest_ms, 0)


def _from(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """Return the segments from the one with the offset on."""
    before = sum(segment.base_offset <= offset for segment in segments)
    return segments[max(before - 1, 0) :]
