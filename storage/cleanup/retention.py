"""Retention: plans which of a log's oldest segments go, by a broker's rules in a broker's order, and deletes them.

`plan_retention` looks at the sizes and times of segments and at no record, and changes nothing. `apply_retention`
deletes the segments of a plan, if the log has not changed since. The store removes the files when it is time. Where a
full disk keeps a log from being opened, `delete_unopened` makes room.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from storage.cleanup.retention_plan import Fate, RetainedSegment, RetentionPlan, Scope
from storage.cleanup.retention_rules import RetentionRules
from storage.cleanup.suspect_timestamps import timestamp_warnings
from storage.errors import DiskFullError, LogChangedError, TooManySegmentsError, missing_file
from storage.segment.names import Kind
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.config import TopicConfig
    from storage.files import Directory, FileStatus
    from storage.log.log import Log
    from storage.log.view import LogView

_DECIDING: Final = ("cleanup.policy", "remote.storage.enable")
_DECIDING_DELETION: Final = ("retention.ms", "retention.bytes")

logger = logging.getLogger(__name__)


def plan_retention(
    log: str, view: LogView, config: TopicConfig | None, *, high_watermark: int, now_ms: int
) -> RetentionPlan:
    """Plan the retention of a log, which is replicated up to the high watermark.

    `config` is None for a log that is no topic's partition: nothing is deleted. Raises `FileNotFoundError` if segments
    of the view are gone: retry with a newer view.
    """
    plan = RetentionPlan(
        log=log,
        now_ms=now_ms,
        scope=_scope(config),
        start_offset=view.start_offset,
        end_offset=view.end_offset,
        new_start_offset=view.start_offset,
        high_watermark=min(max(high_watermark, view.start_offset), view.end_offset),
        unknown="" if config is None else _unknown(config),
    )
    if config is None or plan.scope in {Scope.TIERED, Scope.SETTINGS_UNKNOWN}:
        return plan
    plan = replace(
        plan,
        cleanup_policy=config.value("cleanup.policy"),
        retention_ms=config.retention_ms if config.delete else -1,
        retention_bytes=config.retention_bytes if config.delete else -1,
        segments=tuple(_segments(view)),
    )
    segments = RetentionRules(plan).judged()
    kept = [segment for segment in segments if segment.fate is Fate.KEEP]
    first_kept = kept[0].base_offset if kept else plan.end_offset
    heeds_time = plan.scope is Scope.DELETE and plan.retention_ms >= 0
    return replace(
        plan,
        segments=segments,
        new_start_offset=max(plan.start_offset, first_kept) if segments else plan.start_offset,
        warnings=timestamp_warnings(segments, now_ms) if heeds_time else (),
    )


def apply_retention(log: Log, plan: RetentionPlan) -> list[str]:
    """Delete the plan's segments, and return the names that their files have now, which the caller removes.

    Raises `LogChangedError`, having deleted nothing, if the log has changed. Appends do not matter, unless all segments
    are to be deleted. If there is no room for a new segment, the active one stays. Other errors are the log's.
    """
    if not plan.is_due:
        return []
    _check_unchanged(log.view, plan)
    if not plan.rolls:
        return log.remove_before(_following(plan))
    try:
        log.roll()
    except (DiskFullError, TooManySegmentsError) as error:
        logger.warning("%s: the active segment stays, although its records have expired: %s", plan.log, error)
        return log.remove_before(plan.segments[-1].base_offset)
    if plan.end_offset not in log.view.bases:
        raise LogChangedError("the log was appended to since the plan was made", path=log.directory)
    return log.remove_before(plan.end_offset)


def delete_unopened(directory: Directory, plan: RetentionPlan, recovery_point: int) -> tuple[RetainedSegment, ...]:
    """Delete those of the plan's segments that recovery would not read, and remove their files; returns them.

    The log is open nowhere, and is recovered when it is opened next: it then counts as one that was not closed. The
    active segment stays, and so does every segment that is not known to be on disk, as its time index may be wrong.
    """
    deleted = []
    for segment in plan.deleted:
        if segment.end_offset > recovery_point or segment is plan.segments[-1]:
            break
        for name in Segment(directory, segment.base_offset).own_files.delete():
            directory.remove(name)
        deleted.append(segment)
    return tuple(deleted)


def _unknown(config: TopicConfig) -> str:
    """Return the unknown settings that retention needs, and why. While there is one, nothing is deleted."""
    return config.why_unknown(*_DECIDING, *(_DECIDING_DELETION if config.delete else ()))


def _scope(config: TopicConfig | None) -> Scope:
    if config is None or _unknown(config):
        return Scope.SETTINGS_UNKNOWN
    if config.remote_storage_enable:
        return Scope.TIERED
    return Scope.DELETE if config.delete else Scope.LOG_START


def _segments(view: LogView) -> Iterator[RetainedSegment]:
    """Yield the segments before a rule has judged them."""
    for segment, following in zip_longest(view.segments, view.segments[1:]):
        status = _log_status(segment)
        size_bytes = view.end_position if following is None else segment.size_bytes
        end_offset = view.end_offset if following is None else following.base_offset
        device, inode = status.identity
        yield RetainedSegment(
            base_offset=segment.base_offset,
            end_offset=end_offset,
            size_bytes=size_bytes,
            largest_timestamp=segment.largest_timestamp[0],
            age_timestamp=segment.age_timestamp_of(status),
            device=device,
            inode=inode,
            fate=Fate.KEEP,
            rule=None,
            reason="",
        )


def _log_status(segment: Segment) -> FileStatus:
    status = segment.log_status()
    if status is None:
        raise missing_file(segment.path(Kind.LOG))
    return status


def _following(plan: RetentionPlan) -> int:
    return plan.segments[len(plan.deleted)].base_offset


def _check_unchanged(view: LogView, plan: RetentionPlan) -> None:
    """Raise `LogChangedError` unless the segments that go, and the one after them, are what they were."""
    planned = plan.segments[: len(plan.deleted) + 1]
    if view.start_offset != plan.start_offset or (plan.rolls and view.end_offset != plan.end_offset):
        raise LogChangedError(f"{plan.log} has another start or end than when the plan was made")
    if not _are_same(list(_segments_up_to(view, len(planned))), planned, deleted=len(plan.deleted)):
        raise LogChangedError(f"{plan.log} has other segments than when the plan was made")


def _segments_up_to(view: LogView, count: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
    for segment in view.segments[:count]:
        is_last = segment is view.segments[-1]
        identity = _log_status(segment).identity
        yield segment.base_offset, view.end_position if is_last else segment.size_bytes, identity


def _are_same(
    found: Sequence[tuple[int, int, tuple[int, int]]], planned: Sequence[RetainedSegment], *, deleted: int
) -> bool:
    """True if they are the same files, and those to delete have the same size."""
    if len(found) != len(planned):
        return False
    return all(
        (base_offset, identity) == (segment.base_offset, (segment.device, segment.inode))
        and (index >= deleted or size_bytes == segment.size_bytes)
        for index, ((base_offset, size_bytes, identity), segment) in enumerate(zip(found, planned, strict=True))
    )
