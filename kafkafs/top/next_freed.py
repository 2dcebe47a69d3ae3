"""What retention frees next of a log, and when: by the time that its oldest segment expires, or as the log grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from storage.cleanup import RetentionPlan


class NextFreed(NamedTuple):
    """The bytes that go next: at a time, after so many more bytes, or by whichever comes first.

    What a plan lets go already is due at the time of that plan.
    """

    size_bytes: int
    at_ms: int | None
    missing_bytes: int | None = None

    def due_ms(self, now_ms: int, bytes_per_second: float | None) -> int | None:
        """Return when they go if the log grows on like this; None if growing alone lets them go, and it does not."""
        times = [] if self.at_ms is None else [max(self.at_ms, now_ms)]
        if self.missing_bytes is not None and bytes_per_second:
            times.append(now_ms + round(1000 * self.missing_bytes / bytes_per_second))
        return min(times, default=None)


def next_freed(plan: RetentionPlan) -> NextFreed | None:
    """Return what the plan deletes, or what a later one deletes first; None if no rule ever lets anything go.

    Nor is anything told of a segment that would go now, but for records in it that are not replicated.
    """
    from storage.cleanup import Scope  # what plans is loaded when it is used

    if plan.is_due:
        return NextFreed(plan.deleted_bytes, plan.now_ms)
    if plan.scope is not Scope.DELETE or not plan.segments:
        return None
    first, *others = plan.segments
    missing_bytes = None
    at_ms = plan.expires_ms(first.age_timestamp)
    if at_ms is not None and at_ms < plan.now_ms:
        at_ms = None
    if plan.retention_bytes >= 0 and others:  # without others it grows as much as the log does
        missing_bytes = plan.retention_bytes + first.size_bytes - plan.size_bytes
        missing_bytes = missing_bytes if missing_bytes > 0 else None
    if first.size_bytes == 0 or (at_ms is None and missing_bytes is None):
        return None
    return NextFreed(first.size_bytes, at_ms, missing_bytes)
