"""The plan of a compaction: what it would do to a log now and why, by sizes, times and offsets alone.

A plan is a frozen value. It can be printed, stored as JSON and compared, and applied as long as the segments in it are
what they were. Neighbours that fit into one segment, even if all of them is kept, are put together in a group. How
much would be left takes reading them: that is `Cleaner.estimate`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from storage.clock import duration_text
from storage.offset_text import offsets_text
from storage.record.layout import LARGEST_OFFSET_DELTA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from storage.config import TopicConfig


class Verdict(StrEnum):
    """True if a log is to be compacted now."""

    SETTINGS_UNKNOWN = "settings_unknown"
    NOT_COMPACTED = "not_compacted"
    CLEANER_DISABLED = "cleaner_disabled"
    NOTHING_DIRTY = "nothing_dirty"
    TOO_CLEAN = "too_clean"
    DIRTY = "dirty"
    OVERDUE = "overdue"


class Boundary(StrEnum):
    """The reason that compaction cannot go on."""

    ACTIVE_SEGMENT = "active_segment"
    OPEN_TRANSACTION = "open_transaction"
    HIGH_WATERMARK = "high_watermark"
    COMPACTION_LAG = "compaction_lag"


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A segment that would be read and replaced. `device` and `inode` identify its log file."""

    base_offset: int
    end_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    modified_ms: int
    device: int
    inode: int

    @property
    def extent(self) -> SegmentExtent:
        """The key that decides which segments are put together."""
        return SegmentExtent(
            self.base_offset, self.end_offset, self.size_bytes, self.offset_index_bytes, self.time_index_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The plan for a log at `now_ms`.

    The log is clean up to `first_dirty_offset`, and cannot be compacted from `uncleanable_offset` on, because of the
    `boundary`. `segments` are all before that, `dirty_bytes` their dirty part, counted in whole segments. A
    `checkpoint` that cannot be right does not count. `overdue_ms` is by how much the oldest dirty record has waited too
    long. `groups` has the bases of the segments that become one, if the map of keys has room for the whole dirty part.
    `unknown` says which settings are not known, and why.
    """

    log: str
    now_ms: int
    verdict: Verdict
    checkpoint: int | None = None
    first_dirty_offset: int = 0
    uncleanable_offset: int = 0
    boundary: Boundary | None = None
    clean_bytes: int = 0
    dirty_bytes: int = 0
    min_dirty_ratio: float = 0.0
    overdue_ms: int = 0
    segments: tuple[PlannedSegment, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def is_due(self) -> bool:
        """True if a broker would compact the log now, if it were the dirtiest."""
        return self.verdict in (Verdict.DIRTY, Verdict.OVERDUE)

    @property
    def is_applicable(self) -> bool:
        """True if there is anything to compact, due or not."""
        is_kept = self.verdict in (Verdict.TOO_CLEAN, Verdict.CLEANER_DISABLED)
        return self.is_due or (is_kept and self.dirty_bytes > 0)

    @property
    def dirty_ratio(self) -> float:
        """Return the dirty share of the cleanable part, from 0 to 1; 0 if that is empty."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    @property
    def reason(self) -> str:
        """Return the verdict in a sentence."""
        ratio = f"{self.dirty_ratio:.1%} of its bytes are dirty"
        limit = f"min.cleanable.dirty.ratio is {self.min_dirty_ratio:.1%}"
        match self.verdict:
            case Verdict.SETTINGS_UNKNOWN:
                why = f": {self.unknown}" if self.unknown else ""
                return f"nothing is compacted, because the topic's settings are unknown{why}"
            case Verdict.NOT_COMPACTED:
                return "nothing is compacted, because the topic's cleanup.policy does not say so"
            case Verdict.CLEANER_DISABLED:
                return f"nothing is compacted, because log.cleaner.enable=false; {ratio}, and {limit}"
            case Verdict.NOTHING_DIRTY:
                where = f" before offset {self.uncleanable_offset}" if self.boundary else ""
                return f"there is nothing to compact{where}{self._stop}"
            case Verdict.TOO_CLEAN:
                return f"the log is not compacted yet: {ratio}, and {limit}"
            case Verdict.DIRTY:
                return f"the log is due: {ratio}, and {limit}"
            case Verdict.OVERDUE:
                overdue = duration_text(self.overdue_ms)
                return f"the log is due: it is dirty for {overdue} longer than max.compaction.lag.ms allows"

    def lines(self) -> Iterator[str]:
        """The plan as text, which is the same for plans that are."""
        yield f"{self.log}: {self.reason}"
        for warning in self.warnings:
            yield f"warning: {warning}"
        if not self.is_applicable:
            return
        before = f", before {self.uncleanable_offset}{self._stop}" if self.boundary else ""
        yield f"dirty: {offsets_text(self.first_dirty_offset, self.uncleanable_offset)}{before}"
        yield f"{self.clean_bytes} bytes clean, {self.dirty_bytes} bytes dirty"
        sizes = {segment.base_offset: segment.size_bytes for segment in self.segments}
        for group in self.groups:
            size_bytes = sum(map(sizes.__getitem__, group))
            if len(group) == 1:
                yield f"segment {group[0]}: {size_bytes} bytes, rebuilt"
            else:
                yield f"segments {', '.join(map(str, group))}: {size_bytes} bytes into one segment"

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON objects, with derived fields."""
        return {**asdict(self), "is_due": self.is_due, "dirty_ratio": self.dirty_ratio, "reason": self.reason}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the plan of an `as_json` object."""
        fields = {key: value for key, value in stored.items() if key in cls.__dataclass_fields__}
        boundary = fields["boundary"]
        fields |= {
            "verdict": Verdict(fields["verdict"]),
            "boundary": None if boundary is None else Boundary(boundary),
            "segments": tuple(PlannedSegment(**segment) for segment in fields["segments"]),
            "groups": tuple(map(tuple, fields["groups"])),
            "warnings": tuple(fields["warnings"]),
        }
        return cls(**fields)

    @property
    def _stop(self) -> str:
        match self.boundary:
            case Boundary.OPEN_TRANSACTION:
                return ", where a transaction is open"
            case Boundary.HIGH_WATERMARK:
                return ", from where on records are not replicated yet"
            case Boundary.COMPACTION_LAG:
                return ", where records are younger than min.compaction.lag.ms"
            case _:
                return ", where the active segment begins" if self.boundary else ""


def groups_of(segments: Sequence[PlannedSegment], config: TopicConfig) -> tuple[tuple[int, ...], ...]:
    """Return the bases of the segments of each group."""
    groups = grouped([segment.extent for segment in segments], config)
    return tuple(tuple(extent.base_offset for extent in group) for group in groups)


def dirtiest(plans: Iterable[CompactionPlan]) -> CompactionPlan | None:
    """The plan to be applied first: of those that are due the one with the highest ratio, then the first by name."""
    due = [plan for plan in plans if plan.is_due]
    return min(due, key=lambda plan: (-plan.dirty_ratio, plan.log), default=None)


class SegmentExtent(NamedTuple):
    """A segment that may be compacted: its sizes, and the offset before which it ends."""

    base_offset: int
    end_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def grouped(segments: Sequence[SegmentExtent], config: TopicConfig) -> list[list[SegmentExtent]]:
    """Group consecutive segments up to the size of one segment; every segment is in a group."""
    groups: list[list[SegmentExtent]] = []
    group_bytes = _Bytes(0, 0, 0)
    for segment in segments:
        own_bytes = _Bytes(segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes)
        together = _Bytes(*map(add, group_bytes, own_bytes))
        if groups and _fits(segment, groups[-1][0], together, config):
            groups[-1].append(segment)
            group_bytes = together
        else:
            groups.append([segment])
            group_bytes = own_bytes
    return groups


class _Bytes(NamedTuple):
    log: int
    offset_index: int
    time_index: int


def _fits(segment: SegmentExtent, first: SegmentExtent, together: _Bytes, config: TopicConfig) -> bool:
    return (
        together.log <= config.segment_bytes
        and max(together.offset_index, together.time_index) <= config.segment_index_bytes
        # An empty segment has no offsets; if they counted, each 2^31 of them would leave one.
        and (segment.size_bytes == 0 or segment.end_offset - 1 - first.base_offset <= LARGEST_OFFSET_DELTA)
    )
