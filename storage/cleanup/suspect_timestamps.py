"""Timestamps of segments that are probably wrong, as far as they decide how long records are kept."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from storage.clock import duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.cleanup.retention_plan import RetainedSegment

_YEARS_MS: Final = 30 * 365 * 86_400_000  # as far from now as a record's time is likely to be


class SuspectTimestamp(Enum):
    """The suspicions about a segment's largest timestamp."""

    NONE = "no record has a timestamp, so that the file's last modification counts"
    SECONDS = (
        "the largest timestamp looks like seconds; as milliseconds it is of 1970, so that the segment goes at once"
    )
    MICROSECONDS = "the largest timestamp looks like microseconds"
    NANOSECONDS = "the largest timestamp looks like nanoseconds"
    FUTURE = "the largest timestamp lies in the future"


_HOLDING: Final = frozenset({SuspectTimestamp.MICROSECONDS, SuspectTimestamp.NANOSECONDS, SuspectTimestamp.FUTURE})
"""Those that keep a segment, and all later ones, from being deleted by age."""


def suspicion_of(timestamp: int, now_ms: int) -> SuspectTimestamp | None:
    """Return what is odd about a largest timestamp, None if nothing is."""
    if timestamp < 0:
        return SuspectTimestamp.NONE
    if timestamp <= now_ms:
        return SuspectTimestamp.SECONDS if timestamp > 0 and _is_likely(timestamp * 1000, now_ms) else None
    if _is_likely(timestamp // 1_000_000, now_ms):
        return SuspectTimestamp.NANOSECONDS
    return SuspectTimestamp.MICROSECONDS if _is_likely(timestamp // 1000, now_ms) else SuspectTimestamp.FUTURE


def timestamp_warnings(segments: Sequence[RetainedSegment], now_ms: int) -> tuple[str, ...]:
    """Return a sentence for each suspicion, with the first of its segments that have records and their number."""
    found: dict[SuspectTimestamp, list[RetainedSegment]] = {}
    for segment in segments:
        suspicion = suspicion_of(segment.largest_timestamp, now_ms) if segment.size_bytes else None
        if suspicion is not None:
            found.setdefault(suspicion, []).append(segment)
    return tuple(_sentence(suspicion, found[suspicion], now_ms) for suspicion in SuspectTimestamp if suspicion in found)


def _sentence(suspicion: SuspectTimestamp, segments: Sequence[RetainedSegment], now_ms: int) -> str:
    first = segments[0]
    others = f", and of {len(segments) - 1} more" if len(segments) > 1 else ""
    sentence = f"of the segment at {first.base_offset}{others} {suspicion.value}"
    if suspicion not in _HOLDING:
        return sentence
    lead = duration_text(first.largest_timestamp - now_ms)
    return f"{sentence}, {first.largest_timestamp}, by {lead}; until then, age deletes no later record"


def _is_likely(timestamp_ms: int, now_ms: int) -> bool:
    return abs(timestamp_ms - now_ms) < _YEARS_MS
