"""The plan of a retention: what it would delete of a log now and why, by sizes, times and offsets.

A plan is a frozen value. It can be printed, stored as JSON and compared, and applied as long as the log is what it was.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from storage.clock import duration_text
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LARGEST_TIME: Final = 2**63 - 1


class Scope(StrEnum):
    """The rules that hold for a log."""

    SETTINGS_UNKNOWN = "settings_unknown"  # none: the plan's `unknown` says which settings, and why
    TIERED = "tiered"  # none: only the broker knows the remote part
    LOG_START = "log_start"  # the log's start alone, as its topic is not cleaned up by deleting
    DELETE = "delete"  # the log's start, the log's size, and the age of its records


class Rule(StrEnum):
    """The rules by which segments go, in the order in which they are tried."""

    LOG_START = "log_start"
    SIZE = "size"
    TIME = "time"


class Fate(StrEnum):
    """The fate of a segment."""

    DELETE = "delete"
    ROLL_AND_DELETE = "roll_and_delete"  # it is the active one: another has to take its place
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedSegment:
    """A segment as it was, its fate, and the rule. `device` and `inode` identify its log file.

    Its age counts from `age_timestamp`: the largest timestamp or, if that is -1, the file's last modification.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp: int
    age_timestamp: int
    device: int
    inode: int
    fate: Fate
    rule: Rule | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The plan for a log at `now_ms`. Nothing above its `high_watermark` is deleted.

    Segments go from the oldest on, up to the first that no rule lets go. `new_start_offset` is where the log starts
    then. Negative limits do not apply, and none does unless the scope is `DELETE`. `unknown` says which settings are
    not known, and why.
    """

    log: str
    now_ms: int
    scope: Scope
    start_offset: int
    end_offset: int
    new_start_offset: int
    high_watermark: int
    cleanup_policy: str = ""
    retention_ms: int = -1
    retention_bytes: int = -1
    segments: tuple[RetainedSegment, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def deleted(self) -> tuple[RetainedSegment, ...]:
        """The segments that would go."""
        return tuple(segment for segment in self.segments if segment.fate is not Fate.KEEP)

    @property
    def is_due(self) -> bool:
        """True if there is anything to delete."""
        return bool(self.deleted)

    def expires_ms(self, age_timestamp: int) -> int | None:
        """Return when `retention.ms` lets a segment of that age go; None if it never does within Kafka's time."""
        if self.retention_ms < 0 or age_timestamp + self.retention_ms > _LARGEST_TIME:
            return None
        return age_timestamp + self.retention_ms

    @property
    def rolls(self) -> bool:
        """True if all segments are to be deleted, so that the log would go on in a new one."""
        return any(segment.fate is Fate.ROLL_AND_DELETE for segment in self.segments)

    @property
    def deleted_bytes(self) -> int:
        """The bytes of batches that would be deleted."""
        return sum(segment.size_bytes for segment in self.deleted)

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def reason(self) -> str:
        """Say the plan's result in a sentence."""
        match self.scope:
            case Scope.SETTINGS_UNKNOWN:
                why = f": {self.unknown}" if self.unknown else ""
                return f"nothing is deleted, because the topic's settings are unknown{why}"
            case Scope.TIERED:
                return "nothing is deleted, because the topic has remote storage, which only its broker knows"
        if not self.is_due:
            return f"nothing is to be deleted of {segments_text(len(self.segments))}, {self.size_bytes} bytes"
        return (
            f"{len(self.deleted)} of {segments_text(len(self.segments))} to be deleted, {self.deleted_bytes} of "
            f"{self.size_bytes} bytes; the log then starts at {self.new_start_offset}, and now at {self.start_offset}"
        )

    def lines(self) -> Iterator[str]:
        """The plan as text, which is the same for plans that are."""
        yield f"{self.log}: {self.reason}"
        if self.scope in (Scope.LOG_START, Scope.DELETE):
            limits = f" retention.ms={_limit(self.retention_ms)} retention.bytes={self.retention_bytes}"
            yield (
                f"cleanup.policy={self.cleanup_policy}{limits if self.scope is Scope.DELETE else ''} "
                f"high watermark {self.high_watermark}"
            )
        for warning in self.warnings:
            yield f"warning: {warning}"
        for segment in self.segments:
            fate = segment.fate.replace("_", " ")
            is_empty = segment.end_offset == segment.base_offset
            offsets = offsets_text(segment.base_offset, segment.end_offset)
            what = f"the empty segment at {segment.base_offset}" if is_empty else offsets
            yield f"{fate} {what}, {segment.size_bytes} bytes: {segment.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON objects, with derived fields."""
        return {
            **asdict(self),
            "is_due": self.is_due,
            "rolls": self.rolls,
            "deleted_bytes": self.deleted_bytes,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the plan of an `as_json` object."""
        fields = {key: value for key, value in stored.items() if key in cls.__dataclass_fields__}
        fields |= {
            "scope": Scope(fields["scope"]),
            "segments": tuple(map(_segment, fields["segments"])),
            "warnings": tuple(fields["warnings"]),
        }
        return cls(**fields)


def _segment(stored: Mapping[str, Any]) -> RetainedSegment:
    rule = stored["rule"]
    return RetainedSegment(**{**stored, "fate": Fate(stored["fate"]), "rule": None if rule is None else Rule(rule)})


def segments_text(segments: int) -> str:
    """A number of segments, for people."""
    return "1 segment" if segments == 1 else f"{segments} segments"


def _limit(retention_ms: int) -> str:
    return str(retention_ms) if retention_ms < 0 else f"{retention_ms} ({duration_text(retention_ms)})"
