"""Times and ranges of time, as they are in `by-time/` and in options of commands.

A time is
- a number: milliseconds since 1970. So `20261121` is a time of 1970 and not a day;
- ISO 8601 in its extended form: `2026-11-21`, `2026-11-21T10`, `2026-11-21T10:15`, `2026-11-21T10:15:30`, and up to
  nine decimals of the second behind `.` or `,`, of which milliseconds count. Where there is an hour, a zone may be
  last: `Z`, `+01:00`, `+0100` or `+01`; without one it is UTC. `t`, `z` and a blank for the `T` are allowed, as in RFC
  3339, so that everything that date(1) writes with -I and --rfc-3339 is a time;
- relative: `now`, or so many seconds, minutes, hours, days or weeks ago: `-30s`, `-15m`, `-2h`, `-1d`, `-1w`. It means
  another time whenever it is resolved.

No record is from before 1970, and what is asked for from then on is asked for from 1970 on: no time here is ever one of
the negative numbers by which Kafka means something else. Numbers behind 2^63-1, leap seconds and `24:00` are outside of
the grammar; so is `-15`, which has no unit.

A range is `T1..T2`, T2 excluded. One side may be left out, but not both. T1 at or behind T2 is a range of no records.
A time never has two dots together, nor a dot before a letter, so ranges and formats are told from decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import SUFFIX_EXAMPLES, Format, split_format
from kafkafs.locator.numbers import DIGITS, NUMBER_MAX

if TYPE_CHECKING:
    from typing import TypeAlias

_EXAMPLES: Final = "1732147200000, 2026-11-21, 2026-11-21T10:15:30.250Z, now, -15m"
_EXPECTED_TIME: Final = f"a time; these are: {_EXAMPLES}"
_EXPECTED_NAME: Final = f"a time or a range of times; these are: {_EXAMPLES}, -1h..-5m, 2026-11-21.., {SUFFIX_EXAMPLES}"

_NUMBER: Final = re.compile(DIGITS)
_RELATIVE: Final = re.compile(rf"-({DIGITS})([smhdw])")
_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ]([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?)?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?",
    re.ASCII,
)
_UNIT_MS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DAY_MS: Final = _UNIT_MS["d"]
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_ISO_END_MS: Final = (date.max.toordinal() - _EPOCH_DAY + 1) * _DAY_MS


@dataclass(frozen=True, slots=True)
class Instant:
    """A time in milliseconds since 1970, from 0 to 2^63-1. Its name is ISO 8601; behind the year 9999, the number.

    Names of instants sort as the instants do, up to the year 9999.
    """

    time_ms: int

    def __post_init__(self) -> None:
        assert 0 <= self.time_ms <= NUMBER_MAX

    def __str__(self) -> str:
        if self.time_ms >= _ISO_END_MS:
            return str(self.time_ms)
        days, day_ms = divmod(self.time_ms, _DAY_MS)
        minutes, minute_ms = divmod(day_ms, 60_000)
        day = date.fromordinal(_EPOCH_DAY + days).isoformat()
        return f"{day}T{minutes // 60:02}:{minutes % 60:02}:{minute_ms // 1000:02}.{minute_ms % 1000:03}Z"

    def resolve(self, _now_ms: int, /) -> int:
        """The time in milliseconds since 1970."""
        return self.time_ms


@dataclass(frozen=True, slots=True)
class Ago:
    """A time that is `age_ms`, a number of whole seconds, before whenever it is resolved. Its unit is the largest."""

    age_ms: int

    def __post_init__(self) -> None:
        assert 0 <= self.age_ms <= NUMBER_MAX
        assert self.age_ms % 1000 == 0

    def __str__(self) -> str:
        if not self.age_ms:
            return "now"
        unit, unit_ms = next((unit, unit_ms) for unit, unit_ms in _UNIT_MS.items() if self.age_ms % unit_ms == 0)
        return f"-{self.age_ms // unit_ms}{unit}"

    def resolve(self, now_ms: int, /) -> int:
        """The time in milliseconds since 1970."""
        return max(now_ms - self.age_ms, 0)


Time: TypeAlias = "Instant | Ago"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The times from `start` up to `end`, which is excluded; one of them may be None, which leaves that side open."""

    start: Time | None
    end: Time | None

    def __post_init__(self) -> None:
        assert self.start is not None or self.end is not None

    def __str__(self) -> str:
        return f"{'' if self.start is None else self.start}..{'' if self.end is None else self.end}"

    def resolve(self, now_ms: int, /) -> tuple[int, int | None]:
        """The times from the first up to the second, or without an end; of no time at all, the two are the same."""
        start = 0 if self.start is None else self.start.resolve(now_ms)
        return start, None if self.end is None else max(start, self.end.resolve(now_ms))


@dataclass(frozen=True, slots=True)
class TimeName:
    """A name in `by-time/`: the first record at or after a time or the records of a range, and in which form."""

    times: Time | TimeRange
    format: Format = Format.VALUE

    def __str__(self) -> str:
        return f"{self.times}{self.format}"


def parse_time(text: str) -> Time:
    """The time that a text stands for; raises `BadNameError` if it stands for none."""
    time = _time(text)
    if time is None:
        raise BadNameError(text, _EXPECTED_TIME)
    return time


def parse_time_name(name: str) -> TimeName:
    """The times and the form that a name in `by-time/` asks for; raises `BadNameError` if it asks for none."""
    body, form = split_format(name)
    start, dots, end = body.partition("..")
    if not dots:
        time = _time(body)
        if time is not None:
            return TimeName(time, form)
    elif start or end:
        from_time = _time(start) if start else None
        to_time = _time(end) if end else None
        if (from_time is None) == (not start) and (to_time is None) == (not end):
            return TimeName(TimeRange(from_time, to_time), form)
    raise BadNameError(name, _EXPECTED_NAME)


def _time(text: str) -> Time | None:
    if iso := _ISO.fullmatch(text):
        return _iso_time(iso)
    if _NUMBER.fullmatch(text):
        time_ms = int(text)
        return Instant(time_ms) if time_ms <= NUMBER_MAX else None
    if text == "now":
        return Ago(0)
    if relative := _RELATIVE.fullmatch(text):
        age_ms = int(relative[1]) * _UNIT_MS[relative[2]]
        return Ago(age_ms) if age_ms <= NUMBER_MAX else None
    return None


def _iso_time(iso: re.Match[str]) -> Instant | None:
    year, month, day, hour, minute, second, decimals, sign, zone_hours, zone_minutes = iso.groups("0")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    minutes = int(hour) * 60 + int(minute)
    zone = int(zone_hours) * 60 + int(zone_minutes)
    minutes += zone if sign == "-" else -zone
    time_ms = days * _DAY_MS + minutes * 60_000 + int(second) * 1000 + int(decimals[:3].ljust(3, "0"))
    return Instant(max(time_ms, 0))
