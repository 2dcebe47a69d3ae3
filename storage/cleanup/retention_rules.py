"""The rules of retention, which judge a plan's segments from the oldest on, and the reason for each.

A broker tries one rule after the other, each from the first segment that is left up to the first that it refuses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from storage.cleanup.retention_plan import Fate, Rule, Scope
from storage.clock import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from storage.cleanup.retention_plan import RetainedSegment, RetentionPlan

    Judgement: TypeAlias = tuple[bool, str]


class RetentionRules:
    """The rules for a plan whose segments are not judged yet."""

    def __init__(self, plan: RetentionPlan) -> None:
        self._plan = plan
        self._left_bytes = plan.size_bytes
        self._judged: list[RetainedSegment] = []
        self._rules: dict[Rule, Callable[[RetainedSegment], Judgement]] = {Rule.LOG_START: self._by_start}
        if plan.scope is Scope.DELETE:
            self._rules |= {Rule.SIZE: self._by_size, Rule.TIME: self._by_time}

    def judged(self) -> tuple[RetainedSegment, ...]:
        """Return the segments with the fate of each, and why."""
        segments = self._plan.segments
        for rule, judge in self._rules.items():
            self._walk(rule, judge)
        if len(self._judged) == len(segments):
            return self._with_roll()
        first, *others = segments[len(self._judged) :]
        behind = f"it comes after the segment at {first.base_offset}, which stays"
        kept = (replace(first, reason=self._why_kept(first)), *(replace(each, reason=behind) for each in others))
        return (*self._judged, *kept)

    def _walk(self, rule: Rule, judge: Callable[[RetainedSegment], Judgement]) -> None:
        """Judge segments from the first unjudged one on while the rule deletes them."""
        for segment in self._plan.segments[len(self._judged) :]:
            goes, reason = judge(segment)
            if not goes or self._obstacle(segment) is not None:
                return
            self._left_bytes -= segment.size_bytes
            self._judged.append(replace(segment, fate=Fate.DELETE, rule=rule, reason=f"{_NAMES[rule]}: {reason}"))

    def _obstacle(self, segment: RetainedSegment) -> str | None:
        """Return the reason that keeps a segment against the rules."""
        if segment is self._plan.segments[-1] and segment.size_bytes == 0:
            return "it is the active segment, and empty"
        high_watermark = self._plan.high_watermark
        if high_watermark < segment.end_offset:
            return f"its last offset is {segment.end_offset - 1}, and only those before {high_watermark} are replicated"
        return None

    def _why_kept(self, segment: RetainedSegment) -> str:
        """Return why no rule deletes the first segment that stays."""
        obstacle = self._obstacle(segment)
        if obstacle is not None:
            return obstacle
        refusals = [f"{_NAMES[rule]}: {judge(segment)[1]}" for rule, judge in self._rules.items()]
        if self._plan.scope is Scope.LOG_START:
            refusals.append(f"cleanup.policy={self._plan.cleanup_policy} lets nothing else go")
        return "; ".join(refusals)

    def _with_roll(self) -> tuple[RetainedSegment, ...]:
        if not self._judged:
            return ()
        *closed, active = self._judged
        return (*closed, replace(active, fate=Fate.ROLL_AND_DELETE))

    def _by_start(self, segment: RetainedSegment) -> Judgement:
        start_offset = self._plan.start_offset
        if segment is self._plan.segments[-1]:
            return False, f"the log starts at {start_offset}, and this is the active segment"
        if segment.end_offset <= start_offset:
            return True, f"the log starts at {start_offset}, not before its end"
        return False, f"the log starts at {start_offset}, before its end"

    def _by_size(self, segment: RetainedSegment) -> Judgement:
        limit_bytes = self._plan.retention_bytes
        if limit_bytes < 0:
            return False, "retention.bytes sets no limit"
        excess_bytes = self._left_bytes - limit_bytes
        said = f"{self._left_bytes} bytes are left"
        if excess_bytes < 0:
            return False, f"{said}, within retention.bytes={limit_bytes}"
        if excess_bytes < segment.size_bytes:
            return False, f"{said}, {excess_bytes} over retention.bytes={limit_bytes} and fewer than it has"
        return True, f"{said}, {excess_bytes} over retention.bytes={limit_bytes}"

    def _by_time(self, segment: RetainedSegment) -> Judgement:
        limit_ms = self._plan.retention_ms
        if limit_ms < 0:
            return False, "retention.ms sets no limit"
        age_ms = self._plan.now_ms - segment.age_timestamp
        newest = "its newest record" if segment.largest_timestamp >= 0 else "without timestamps, its file's last change"
        if age_ms < 0:
            return False, f"{newest} lies {-age_ms} ms ({duration_text(-age_ms)}) in the future"
        said = f"{newest} is {age_ms} ms ({duration_text(age_ms)}) old"
        if age_ms > limit_ms:
            return True, f"{said}, more than retention.ms={limit_ms}"
        return False, f"{said}, within retention.ms={limit_ms}"


_NAMES = {Rule.LOG_START: "log start", Rule.SIZE: "size", Rule.TIME: "time"}
