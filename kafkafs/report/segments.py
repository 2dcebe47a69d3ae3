"""One segment of a report: how large and how old it is, when it was written, what is wrong with it, what goes next."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kafkafs.report.contents import codec_label
from kafkafs.report.facts import FindingFacts, Next, SegmentFacts
from kafkafs.report.next_steps import next_step
from kafkafs.report.timeline import Written
from storage.errors import ChecksumError, CorruptBatchError, CorruptIndexError, FramingError
from storage.segment import LOOKUP_WINDOW_BYTES, Kind
from storage.verify import FindingKind, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.report.contents import Contents
    from storage.cleanup import CompactionPlan, RetentionPlan
    from storage.log import SegmentSlice
    from storage.record import Batch

T = TypeVar("T")

_POINTS: Final = 32
"""The times of a segment at which its indexes are asked how far it had grown."""
_PARTS: Final = 128
"""The parts of a segment that is read whole."""
_UNPLANNED: Final = "it cannot be planned, because something cannot be read"


class Plans:
    """What is due for the segments of a partition, as far as that can be planned."""

    def __init__(self, retention: RetentionPlan | None, compaction: CompactionPlan | None) -> None:
        self.retention = retention
        self.compaction = compaction
        self._fates: dict[int, tuple[Next, str]] = {}
        if compaction is not None and compaction.is_applicable:
            which = Next.COMPACTED if compaction.is_due else Next.DIRTY
            for planned in compaction.segments:
                if planned.end_offset > compaction.first_dirty_offset:
                    self._fates[planned.base_offset] = (which, compaction.reason)
        for segment in () if retention is None else retention.deleted:
            self._fates[segment.base_offset] = (Next.DELETED, segment.reason)

    def fate(self, base_offset: int) -> tuple[Next, str]:
        """Return what becomes of a segment next, and why."""
        return self._fates.get(base_offset, (Next.KEPT, ""))

    def expires_ms(self, age_ms: int | None) -> int | None:
        """Return when retention by time deletes a segment of that age; None if it never does, or if that is unknown."""
        if self.retention is None or age_ms is None or age_ms < 0:
            return None
        return self.retention.expires_ms(age_ms)

    def as_facts(self) -> dict[str, Any]:
        """Return the fields of a partition's facts that the plans say."""
        retention, compaction = self.retention, self.compaction
        return {
            "retention": _UNPLANNED if retention is None else retention.reason,
            "freed_bytes": 0 if retention is None else retention.deleted_bytes,
            "freed_segments": 0 if retention is None else len(retention.deleted),
            "compaction": _UNPLANNED if compaction is None else compaction.reason,
            "compaction_is_due": compaction is not None and compaction.is_due,
            "dirty_bytes": compaction.dirty_bytes if compaction is not None and compaction.is_applicable else 0,
        }


class SegmentFound(NamedTuple):
    """A segment's facts; the parts in which it was written; its records, if they were counted."""

    facts: SegmentFacts
    written: list[Written]
    records: int


class Problems:
    """What a partition is found to have: damage, and files that cannot be read."""

    def __init__(self, directory: str) -> None:
        self.found: list[FindingFacts] = []  # each once
        self._seen: set[FindingFacts] = set()
        self._directory = directory

    def guarded(self, ask: Callable[[], T]) -> T | None:
        """Return the answer; None if damage or an unreadable file is in its way, which is a problem.

        Raises `FileNotFoundError`: what was there is gone.
        """
        try:
            return ask()
        except (CorruptBatchError, CorruptIndexError) as error:
            self.add(error)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            self._add(Severity.UNREADABLE, FindingKind.UNREADABLE, error.filename, reason)
        return None

    def add(self, error: CorruptBatchError | CorruptIndexError) -> None:
        """Add damage."""
        self._add(Severity.DAMAGE, _kind_of(error), error.path, error.reason, error.position, error.offset)

    def _add(
        self,
        severity: Severity,
        kind: FindingKind,
        path: object,
        reason: str,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        name = Path(os.fsdecode(path)).name if isinstance(path, str | bytes) else ""
        finding = FindingFacts(
            severity=severity,
            kind=kind,
            path="/".join(filter(None, (self._directory, name))),
            position=position,
            offset=offset,
            reason=reason,
            at_start=None,
            next_step=next_step(kind),
        )
        if finding not in self._seen:
            self._seen.add(finding)
            self.found.append(finding)


def _kind_of(error: CorruptBatchError | CorruptIndexError) -> FindingKind:
    if isinstance(error, CorruptIndexError):
        return FindingKind.INDEX_ENTRY
    if isinstance(error, ChecksumError):
        return FindingKind.CHECKSUM
    return FindingKind.FRAMING if isinstance(error, FramingError) else FindingKind.RECORDS


class SegmentLook:
    """One look at a segment, as far as it is part of a view that begins at `start_offset`."""

    def __init__(self, part: SegmentSlice, start_offset: int, plans: Plans, problems: Problems) -> None:
        self._part = part
        self._segment = part.segment
        self._start_offset = start_offset
        self._plans = plans
        self._problems = problems

    def found(self, contents: Contents | None, *, is_active: bool) -> SegmentFound:
        """Return what is found; all of its batches are put into `contents`, if that is given."""
        segment, end, end_offset = self._part
        known = len(self._problems.found)
        guarded = self._problems.guarded
        size_bytes = segment.size_bytes if end is None else end
        first = guarded(lambda: self._first(size_bytes))
        last_ms = _time(guarded(lambda: segment.largest_timestamp[0]))
        for check in (segment.offset_index.check, segment.time_index.check, lambda: segment.check_end(end)):
            guarded(check)
        first_ms = None if first is None else _time(first.max_timestamp)
        records = 0
        if contents is not None:
            written, records = self._read(contents, size_bytes)
            first_ms = min((part.first_ms for part in written), default=first_ms)
            last_ms = max((part.last_ms for part in written), default=last_ms)
        elif first_ms is None or last_ms is None or not size_bytes:
            written = []
        else:
            begin, finish = Point(first_ms, 0, segment.base_offset), Point(last_ms, size_bytes, end_offset)
            written = _between(begin, guarded(lambda: list(self._points(first_ms, last_ms))) or [], finish)
        fate, reason = self._plans.fate(segment.base_offset)
        facts = SegmentFacts(
            base_offset=segment.base_offset,
            end_offset=end_offset,
            size_bytes=size_bytes,
            first_timestamp=first_ms,
            last_timestamp=last_ms,
            codec=None if first is None else codec_label(first),
            is_active=is_active,
            next=fate,
            expires_ms=self._plans.expires_ms(guarded(lambda: segment.age_timestamp)),
            reason=reason,
            damage=self._problems.found[known].reason if len(self._problems.found) > known else None,
        )
        if not is_active:
            segment.unload()
        return SegmentFound(facts, written, records)

    def _first(self, size_bytes: int) -> Batch | None:
        """Return the first batch if it is sound; None of an empty segment."""
        batch = next(self._segment.batches(0, size_bytes, window_bytes=LOOKUP_WINDOW_BYTES), None)
        if batch is not None:
            try:
                batch.check_crc()
            except CorruptBatchError as error:
                raise error.located(path=self._segment.path(Kind.LOG)) from None
        return batch

    def _points(self, first_ms: int, last_ms: int) -> Iterator[Point]:
        """Yield how far the segment had grown at some times, by its indexes, which may be wrong."""
        segment = self._segment
        points = min(_POINTS, segment.time_index.entries_count)
        for number in range(1, points + 1):
            entry = segment.time_index.lookup(first_ms + (last_ms - first_ms) * number // (points + 1))
            if entry.timestamp >= 0:
                yield Point(entry.timestamp, segment.offset_index.lookup(entry.offset).position, entry.offset)

    def _read(self, contents: Contents, size_bytes: int) -> tuple[list[Written], int]:
        """Read every batch; return when they were written, and how many records they have."""
        written: list[Written] = []
        records = 0
        for batch in self._batches(size_bytes):
            path = self._segment.path(Kind.LOG)
            if self._problems.guarded(partial(contents.take_checked, batch, path)) is None:
                continue  # its times may be anything
            count = self._problems.guarded(partial(_visible, batch, self._start_offset)) or 0
            records += count
            time_ms = _time(batch.max_timestamp)
            if time_ms is None:
                continue
            new = Written(time_ms, time_ms, batch.size_bytes, count)
            if written and written[-1].size_bytes < size_bytes // _PARTS:
                new = _together(written.pop(), new)
            written.append(new)
        return written, records

    def _batches(self, size_bytes: int) -> Iterator[Batch]:
        """Yield the batches with visible records, up to damage."""
        batches = self._segment.batches(0, size_bytes)
        while (batch := self._problems.guarded(lambda: next(batches, None))) is not None:
            if batch.last_offset >= self._start_offset:
                yield batch


class Point(NamedTuple):
    """How far a segment had grown at a time: to a position, and to an offset."""

    time_ms: int
    position: int
    offset: int


def _between(begin: Point, points: list[Point], finish: Point) -> list[Written]:
    """Return the parts between points; those that do not ascend make no sense, and are passed over."""
    written = []
    before = begin
    for point in [*points, finish]:
        steps = [new - old for new, old in zip(point, before, strict=True)]
        is_sound = all(new <= bound for new, bound in zip(point, finish, strict=True))
        if is_sound and min(steps) >= 0 and (max(steps[1:]) or point is finish):
            written.append(Written(before.time_ms, point.time_ms, steps[1], steps[2]))
            before = point
    if before != finish:  # the last record is older than the first
        rest = [max(new - old, 0) for new, old in zip(finish, before, strict=True)]
        written.append(Written(before.time_ms, max(before.time_ms, finish.time_ms), rest[1], rest[2]))
    return written


def _together(one: Written, other: Written) -> Written:
    return Written(
        min(one.first_ms, other.first_ms),
        max(one.last_ms, other.last_ms),
        one.size_bytes + other.size_bytes,
        one.records + other.records,
    )


def _visible(batch: Batch, start_offset: int) -> int:
    """Count the records of a batch from an offset on."""
    if batch.count is not None and batch.starts_at_or_after(start_offset):
        return batch.count
    return sum(record.offset >= start_offset for record in batch.records())


def _time(timestamp: int | None) -> int | None:
    return None if timestamp is None or timestamp < 0 else timestamp
