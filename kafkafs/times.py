"""Times as users write them: epoch milliseconds, ISO 8601, or relative to now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EXAMPLES: Final = "1732147200000, 2026-11-21, 2026-11-21T10:15:30.250Z, now, -15m"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_RELATIVE: Final = re.compile(r"-(\d+)([smhdw])", re.ASCII)
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def parse_time(text: str, *, now_ms: int) -> int:
    """The time in epoch milliseconds, in UTC when the text names no zone; ValueError, in a sentence, if it is none."""
    if _NUMBER.fullmatch(text):
        return int(text)
    if text == "now":
        return now_ms
    if relative := _RELATIVE.fullmatch(text):
        return now_ms - int(relative[1]) * _UNIT_MS[relative[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; these are: {EXAMPLES}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND
