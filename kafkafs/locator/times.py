"""Times and ranges of time, as they are in `by-time/` and in options of commands.

A time is
- a number: milliseconds since 1970. A number below 10^11 other than 0 would mean 1970, and is as a rule meant for
  something else: seconds, as `date +%s` writes them, or a date. It is refused, with the names of what it may mean;
- ISO 8601 in its extended form: `2026-11-21`, `2026-11-21T10`, `2026-11-21T10:15`, `2026-11-21T10:15:30`, and up to
  nine decimals of the second after `.` or `,`. Where there is an hour, a zone may be last: `Z`, `+01:00`, `+0100` or
  `+01`; without one it is UTC. `t`, `z` and a blank for the `T` are allowed, as in RFC 3339, so that everything that
  date(1) writes with -I and --rfc-3339 is a time;
- relative: `now`, or so many seconds, minutes, hours, days or weeks ago: `-30s`, `-15m`, `-2h`, `-1d`, `-1w`, or
  several of them, the largest first: `-1h30m`. `today` and `yesterday` are the beginnings of these days in UTC. Each
  means another time whenever it is resolved.

What is finer than a millisecond is rounded up: no record at the rounded time is from before the time that was asked
for, and as the end of a range is excluded, rounding it up loses none from before it either.

No record is from before 1970, and what is asked for from then on is asked for from 1970 on: no time here is ever one of
the negative numbers by which Kafka means something else. Numbers above 2^63-1, leap seconds and `24:00` are outside of
the grammar; so is `-15`, which has no unit.

A range is `T1..T2`, T2 excluded. One side may be left out, but not both. T1 at or after T2 is a range of no records.
A time never has two dots together, nor a dot before a letter, so ranges and formats are told from decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from kafkafs.locator.errors import AmbiguousNameError, BadNameError
from kafkafs.locator.formats import SUFFIX_EXAMPLES, Format, split_format
from kafkafs.locator.numbers import DIGITS, NUMBER_MAX

if TYPE_CHECKING:
    from typing import TypeAlias

_EXAMPLES: Final = "1732147200000, 2026-11-21, 2026-11-21T10:15:30.250Z, now, -15m, today"
_EXPECTED_TIME: Final = f"a time; these are: {_EXAMPLES}"
_EXPECTED_NAME: Final = f"a time or a range of times; these are: {_EXAMPLES}, -1h..-5m, 2026-11-21.., {SUFFIX_EXAMPLES}"

_NUMBER: Final = re.compile(DIGITS)
_RELATIVE: Final = re.compile("-(?=[0-9])" + "".join(rf"(?:({DIGITS}){unit})?" for unit in "wdhms"))
_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ]([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?)?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?",
    re.ASCII,
)
_UNIT_MS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DAY_MS: Final = _UNIT_MS["d"]
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_SMALLEST_NUMBER: Final = 10**11  # in 1973; in seconds, in the year 5138
_DATE: Final = re.compile(r"(\d{4})(\d\d)?(\d\d)?", re.ASCII)
_YEARS: Final = range(1970, 2100)  # what a number of four, six or eight digits begins with if it is a date
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_ISO_END_MS: Final = (date.max.toordinal() - _EPOCH_DAY + 1) * _DAY_MS


@dataclass(frozen=True, slots=True)
class Instant:
    """A time in milliseconds since 1970, from 0 to 2^63-1. Its name is ISO 8601; after the year 9999, the number.

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


@dataclass(frozen=True, slots=True)
class Day:
    """The beginning of a day in UTC, so many days before the day on which it is resolved: 0 or 1."""

    days_ago: int

    def __post_init__(self) -> None:
        assert self.days_ago in _DAYS_AGO.values()

    def __str__(self) -> str:
        return next(name for name, days_ago in _DAYS_AGO.items() if days_ago == self.days_ago)

    def resolve(self, now_ms: int, /) -> int:
        """The time in milliseconds since 1970."""
        return max(now_ms - now_ms % _DAY_MS - self.days_ago * _DAY_MS, 0)


Time: TypeAlias = "Instant | Ago | Day"


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
    """Return the time that a text means; raises `BadNameError` if it means none."""
    time = _time(text, text)
    if time is None:
        raise BadNameError(text, _EXPECTED_TIME)
    return time


def parse_milliseconds(text: str) -> Instant | None:
    """Return the time of a number of milliseconds, however small; None if the text is no such number."""
    return Instant(int(text)) if _NUMBER.fullmatch(text) and int(text) <= NUMBER_MAX else None


def parse_time_name(name: str) -> TimeName:
    """The times and the form that a name in `by-time/` asks for; raises `BadNameError` if it asks for none."""
    body, form = split_format(name)
    start, dots, end = body.partition("..")
    if not dots:
        time = _time(body, name)
        if time is not None:
            return TimeName(time, form)
    elif start or end:
        from_time = _time(start, name) if start else None
        to_time = _time(end, name) if end else None
        if (from_time is None) == (not start) and (to_time is None) == (not end):
            return TimeName(TimeRange(from_time, to_time), form)
    raise BadNameError(name, _EXPECTED_NAME)


def _time(text: str, name: str) -> Time | None:
    """Return the time that a text means, which is a part of the name or all of it; None if it means none."""
    if iso := _ISO.fullmatch(text):
        return _iso_time(iso)
    if _NUMBER.fullmatch(text):
        instant = parse_milliseconds(text)
        if instant is not None and 0 < instant.time_ms < _SMALLEST_NUMBER:
            raise AmbiguousNameError(name, f"a time: {_readings(text, instant)}")
        return instant
    if text == "now":
        return Ago(0)
    if text in _DAYS_AGO:
        return Day(_DAYS_AGO[text])
    if relative := _RELATIVE.fullmatch(text):
        counts = zip(relative.groups("0"), _UNIT_MS.values(), strict=True)
        age_ms = sum(int(count) * unit_ms for count, unit_ms in counts)
        return Ago(age_ms) if age_ms <= NUMBER_MAX else None
    return None


def _readings(text: str, instant: Instant) -> str:
    """Return the readings of a number that is too small for milliseconds, each as a name of a time."""
    seconds = f"{text}000" if int(text) * 1000 >= _SMALLEST_NUMBER else str(Instant(int(text) * 1000))
    day = _date_of_digits(text)
    date_reading = "a date is written 2024-01-01" if day is None else f"if it is a date, write {day}"
    return f"as milliseconds {int(text)} is {instant}; if it is seconds, write {seconds}; {date_reading}"


def _date_of_digits(text: str) -> str | None:
    """The date whose digits these are, of a year, a month or a day; None if there is no such date."""
    digits = _DATE.fullmatch(text)
    if digits is None or int(digits[1]) not in _YEARS:
        return None
    year, month, day = digits.groups("01")
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
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
    milliseconds = -(-int(decimals.ljust(9, "0")) // 1_000_000)
    return Instant(max(days * _DAY_MS + minutes * 60_000 + int(second) * 1000 + milliseconds, 0))
