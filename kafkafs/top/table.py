"""Rows as lines of text, fitted to the width of a terminal. A line says how it is meant, and a screen how that looks.

Where there is little room the least important columns are left out, and names are cut. No line has a control character.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.plain_text import columns_of, fitted, one_line
from kafkafs.quantities import count_text, size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkafs.top.reading import Reading
    from kafkafs.top.rows import Row

_GAP: Final = "  "
_NAME_WIDTH_MIN: Final = 24
_GROUP_WIDTH_MAX: Final = 24


class Style(Enum):
    """What a line is."""

    PLAIN = "plain"
    TITLE = "title"
    HEADER = "header"
    CHOSEN = "chosen"
    BAD = "bad"
    QUIET = "quiet"


class Line(NamedTuple):
    """A line of text."""

    text: str
    style: Style = Style.PLAIN


class Column(NamedTuple):
    """A column right of the name, at least so wide. Those with the highest rank are left out first."""

    title: str
    text: Callable[[Row], str]
    width: int
    rank: int = 0
    is_text: bool = False


def freed_text(row: Row) -> str:
    """Return how much goes, and when; a question mark where that is not known."""
    freed, now_ms = row.freed, row.now_ms
    if freed is None:
        return "" if row.is_freed_known else "?"
    size = size_text(freed.size_bytes, "")
    if freed.due_ms is None:
        return f"{size} at +{size_text(freed.missing_bytes or 0, '')}"
    return f"{size} now" if freed.due_ms <= now_ms else f"{size} in {span_text((freed.due_ms - now_ms) / 1000)}"


def age_text(timestamp_ms: int | None, now_ms: int) -> str:
    """Return how long ago that was."""
    return "" if timestamp_ms is None else span_text((now_ms - timestamp_ms) / 1000)


def _number(value: float | None) -> str:
    return "" if value is None else count_text(value)


def _size(value: float | None) -> str:
    return "" if value is None else size_text(value, "")


_OF_BOTH: Final = (
    Column("BYTES/S", lambda row: _size(row.bytes_per_second), 7, rank=1),
    Column("REC/S", lambda row: _number(row.records_per_second), 5, rank=3),
    Column("SIZE", lambda row: _size(row.size_bytes), 6),
    Column("LAG", lambda row: _number(row.lag), 5, rank=2),
    Column("OF GROUP", lambda row: fitted_group(row.group), 8, rank=7, is_text=True),
    Column("OLDEST", lambda row: age_text(row.oldest_ms, row.now_ms), 6, rank=5),
    Column("FREED NEXT", freed_text, 12, rank=4),
)
OF_TOPICS: Final = (Column("PARTS", lambda row: str(row.partitions), 5, rank=6), *_OF_BOTH)
OF_PARTITIONS: Final = (
    Column("START", lambda row: "" if row.start_offset is None else str(row.start_offset), 5, rank=9),
    Column("END", lambda row: "" if row.end_offset is None else str(row.end_offset), 5, rank=8),
    Column("SEGS", lambda row: "" if row.segments is None else str(row.segments), 4, rank=6),
    *_OF_BOTH,
)


def fitted_group(group: str | None) -> str:
    """Return a group's id, cut if it is long."""
    text = "" if group is None else one_line(group)
    return text if columns_of(text) <= _GROUP_WIDTH_MAX else fitted(text, _GROUP_WIDTH_MAX)


def table_lines(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> list[Line]:
    """Return the header and a line for each row, no wider than that.

    A row with an error is followed by what it says, as far as there is room; one without anything else has it in place
    of its columns.
    """
    cells = {column: [column.text(row) for row in rows] for column in columns}
    widths = {column: max(column.width, *map(columns_of, (column.title, *texts))) for column, texts in cells.items()}
    longest = max((columns_of(one_line(row.name)) for row in rows), default=0)
    name_width, kept = _laid_out(columns, widths, max(longest, len("PARTITION")), width)
    title = "TOPIC" if columns is OF_TOPICS else "PARTITION"
    head = _GAP.join([fitted(title, name_width), *(_cell(each.title, each, widths) for each in kept)])
    lines = [Line(_cut(head, width), Style.HEADER)]
    for number, row in enumerate(rows):
        name = fitted(one_line(row.name), name_width)
        error = "" if row.error is None else f"{_GAP}! {one_line(row.error)}"
        has_figures = row.partition is None or row.end_offset is not None
        figures = [_cell(cells[each][number], each, widths) for each in kept] if has_figures else []
        text = _GAP.join([name, *figures]).rstrip() + error
        lines.append(Line(_cut(text, width), Style.BAD if row.errors else Style.PLAIN))
    return lines


def summary_lines(reading: Reading, total: Row) -> list[Line]:
    """Return the figures of all that was read, and a line that says what is missing, which may be empty."""
    topics = len({each.topic for each in reading.partitions})
    text = f"topics {topics}  partitions {total.partitions}  size {size_text(total.size_bytes or 0)}"
    if total.bytes_per_second is not None:
        text += f"  in {size_text(total.bytes_per_second)}/s, {count_text(total.records_per_second or 0)} records/s"
    note = Line("")
    if reading.shortcomings:
        more = f" (and {len(reading.shortcomings) - 1} more)" if len(reading.shortcomings) > 1 else ""
        note = Line(f"! {one_line(reading.shortcomings[0])}{more}", Style.BAD)
    elif total.errors:
        note = Line(f"! partitions with errors: {total.errors}", Style.BAD)
    return [Line(text), note]


def _laid_out(
    columns: Sequence[Column], widths: Mapping[Column, int], longest: int, width: int | None
) -> tuple[int, list[Column]]:
    """Return how wide names are, and the columns for which there is room."""
    kept = list(columns)
    if width is None:
        return longest, kept
    while True:
        room = width - sum(widths[column] + len(_GAP) for column in kept)
        if room >= min(longest, _NAME_WIDTH_MIN) or not any(column.rank for column in kept):
            return max(min(longest, room), 1), kept
        kept.remove(max(kept, key=lambda column: column.rank))


def _cell(text: str, column: Column, widths: Mapping[Column, int]) -> str:
    return fitted(text, widths[column], is_at_right=not column.is_text)


def _cut(text: str, width: int | None) -> str:
    return text if width is None or columns_of(text) <= width else fitted(text, width)
