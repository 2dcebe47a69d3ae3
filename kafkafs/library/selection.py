"""Offsets and times as a program gives them, read by the grammar of the mount and the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import Format
from kafkafs.locator.offsets import AtOffset, RecordRange, parse_offset_name
from kafkafs.locator.times import Instant, Time, TimeRange, parse_time, parse_time_name

if TYPE_CHECKING:
    from kafkafs.locator.offsets import Record

Moment: TypeAlias = "str | int | datetime"
"""A time: one of the grammar, milliseconds since 1970, or an aware datetime."""
Times: TypeAlias = "str | tuple[Moment | None, Moment | None]"
"""A range of times, its end excluded; a side that is open is None, or left out of the text."""
Offsets: TypeAlias = "str | range"
"""A range of offsets, its end excluded."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIDES: Final = 2
_RANGES: Final = "100..200, 100.., ..200, last-100.., all"


def parse_range(offsets: Offsets) -> RecordRange:
    """Raise `BadNameError` for a text that is no range of offsets."""
    if isinstance(offsets, range):
        if offsets.step != 1 or offsets.start < 0:
            raise ValueError(f"{offsets!r} is not a range of offsets: those rise by 1 from 0 or more")
        return RecordRange(AtOffset(offsets.start), AtOffset(max(offsets.stop, 0)))
    if not isinstance(offsets, str):
        raise TypeError(f"offsets are a range or a text such as '100..200', not {_kind(offsets)}")
    name = parse_offset_name(offsets)
    if not isinstance(name.records, RecordRange) or name.format is not Format.VALUE:
        raise BadNameError(offsets, f"a range of records; these are: {_RANGES}")
    return name.records


def parse_record(offset: int | str) -> Record:
    """Raise `BadNameError` for a text, or `ValueError` for a number, that is no record's."""
    if not isinstance(offset, str):
        return AtOffset(parse_offset(offset))
    name = parse_offset_name(offset)
    if isinstance(name.records, RecordRange) or name.format is not Format.VALUE:
        raise BadNameError(offset, "a record; these are: 42, earliest, latest, last-10")
    return name.records


def parse_offset(offset: int) -> int:
    """Return the offset, which may be of any type of integers; raise `ValueError` or `TypeError` for what is none."""
    try:
        number = index(offset)
    except TypeError:
        raise TypeError(f"an offset is an int, or a text such as 'latest', not {_kind(offset)}") from None
    if number < 0:
        raise ValueError(f"{number} is no offset; from the end, the records are 'latest', 'last-2' and so on")
    return number


def parse_moment(moment: Moment) -> Time:
    """Raise `BadNameError` for what is no time, `ValueError` for a datetime without a time zone."""
    if not isinstance(moment, datetime):
        return parse_time(str(moment))
    return Instant(max(milliseconds(moment), 0))


def parse_times(times: Times) -> TimeRange:
    """Raise as `parse_moment` does."""
    if isinstance(times, tuple):
        if len(times) != _SIDES:
            raise ValueError(f"a range of times has a beginning and an end, and this has {len(times)}")
        start, end = (None if each is None else parse_moment(each) for each in times)
        if start is None and end is None:
            raise ValueError("a range of times has a beginning or an end")
        return TimeRange(start, end)
    if not isinstance(times, str):
        raise TypeError(f"times are a tuple of two, or a text such as '-1h..', not {_kind(times)}")
    name = parse_time_name(times)
    if not isinstance(name.times, TimeRange) or name.format is not Format.VALUE:
        raise BadNameError(times, "a range of times; these are: -1h..-5m, 2026-11-21.., ..now")
    return name.times


def milliseconds(moment: int | datetime) -> int:
    """A time in milliseconds since 1970; what is finer is rounded up."""
    if not isinstance(moment, datetime):
        try:
            return index(moment)
        except TypeError:
            what = f"a timestamp is an int of milliseconds or an aware datetime, not {_kind(moment)}"
            raise TypeError(what) from None
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone, so which time it is is unknown: give it one, such as UTC")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def _kind(given: object) -> str:
    return type(given).__name__
