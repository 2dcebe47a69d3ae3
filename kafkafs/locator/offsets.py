"""Names of records and of runs of records, as they are in `offset/`.

A record is an offset (`42`); `earliest`; `latest`, which is `last-1`; or so many from the end (`last-10`, `-10`), where
only visible records count: not those that are compacted away, nor control records, nor aborted ones that a reader of
committed records does not see. So only who has the log knows their offsets.

A range is `A..B`: from the record A up to the record B, which is excluded. Thereby
- either side may be left out: `A..` goes to the end and `..B` comes from the start; `all` is both, as `..` alone is the
  directory above everywhere;
- `earliest` says the same as nothing does on the left: `earliest..42` is `..42`;
- `latest` on the right is the end offset and not the last record: `42..latest` is `42..`. On the left it is the last
  record: `latest..` has just that one. `last-1` is the last record on both sides: `..last-1` has all but that;
- `last-100..last-10` and `-100..-10` are the ninety records from the hundredth up to the tenth from the end;
- what does not exist is cut off: with five records `last-100..` has five and `..last-100` none;
- A at or after B, `5..3`, `..earliest`, is a range of no records, and not an error.

Outside of the grammar are `-0` and `last-0`, as the end is not a record; signs such as `+5`; numbers above 2^63-1, or
of more than twenty digits; digits that are not ASCII; capital letters; blanks; and the empty name. `0042` is 42.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import SUFFIX_EXAMPLES, Format, split_format
from kafkafs.locator.numbers import DIGITS, NUMBER_MAX

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

_EXPECTED: Final = (
    "a record or a range of records; these are: "
    f"42, earliest, latest, last-10, 100..200, 100.., ..200, last-100.., all, {SUFFIX_EXAMPLES}"
)
_ALL: Final = "all"
_COUNTED: Final = re.compile(rf"(|-|last-)({DIGITS})")


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The record at an offset, or in a range the offset itself, whether or not there is a record."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class FromEnd:
    """The `count`-th visible record from the end; 1 is the last."""

    count: int

    def __str__(self) -> str:
        return "latest" if self.count == 1 else f"last-{self.count}"


class Edge(Enum):
    """An end of a log."""

    EARLIEST = auto()  # the first visible record, or in a range the start of the log
    END = auto()  # after the last record: no record, but a range may end there

    def __str__(self) -> str:
        return self.name.lower()


Record: TypeAlias = "AtOffset | FromEnd | Literal[Edge.EARLIEST]"
RangeEnd: TypeAlias = "Record | Literal[Edge.END]"


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The records from `start` up to `end`, which is excluded."""

    start: Record
    end: RangeEnd

    def __str__(self) -> str:
        start = "" if self.start is Edge.EARLIEST else str(self.start)
        if self.end is Edge.END:
            return f"{start}.." if start else _ALL
        # `latest` would be the end offset here.
        return f"{start}..{'last-1' if self.end == _LAST else self.end}"

    def resolve(
        self, start_offset: int, end_offset: int, offset_from_end: Callable[[int], int | None]
    ) -> tuple[int, int]:
        """The offsets from the first up to the second, which is excluded; of no records, the two are the same.

        They are within `start_offset` and `end_offset`, the bounds of what the reader may see. `offset_from_end` is
        asked only for what counts from the end: for the offset of that visible record, or None if there are fewer.
        """

        def resolved(position: RangeEnd) -> int:
            if isinstance(position, AtOffset):
                return min(max(position.offset, start_offset), end_offset)
            if isinstance(position, FromEnd):
                offset = offset_from_end(position.count)
                return start_offset if offset is None else offset
            return start_offset if position is Edge.EARLIEST else end_offset

        start = resolved(self.start)
        return start, max(start, resolved(self.end))


@dataclass(frozen=True, slots=True)
class OffsetName:
    """A name in `offset/`: which records, and in which form."""

    records: Record | RecordRange
    format: Format = Format.VALUE

    def __str__(self) -> str:
        return f"{self.records}{self.format}"


_LAST: Final = FromEnd(1)


def parse_offset_name(name: str) -> OffsetName:
    """The records and the form that a name in `offset/` asks for; raises `BadNameError` if it asks for none."""
    body, form = split_format(name)
    records = _records(body)
    if records is None:
        raise BadNameError(name, _EXPECTED)
    return OffsetName(records, form)


def _records(text: str) -> Record | RecordRange | None:
    start, dots, end = text.partition("..")
    if not dots:
        return RecordRange(Edge.EARLIEST, Edge.END) if text == _ALL else _record(text)
    if not start and not end:
        return None
    from_record = _record(start) if start else Edge.EARLIEST
    to_record = _record(end) if end and end != "latest" else Edge.END
    return None if from_record is None or to_record is None else RecordRange(from_record, to_record)


def _record(text: str) -> Record | None:
    counted = _COUNTED.fullmatch(text)
    if counted is not None:
        number = int(counted[2])
        if number > NUMBER_MAX:
            return None
        if not counted[1]:
            return AtOffset(number)
        return FromEnd(number) if number else None
    if text == "latest":
        return _LAST
    return Edge.EARLIEST if text == "earliest" else None
