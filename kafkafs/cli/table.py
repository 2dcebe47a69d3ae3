"""A table for people: sizes and times in words, numbers at the right, and no wider than the terminal.

What a column holds is told by its name, as all commands name their fields. No size, time or number has a blank, so that
`sort` and `awk` still see columns. Programs read the other forms of output, where every value is as it is.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from kafkafs.locator.times import Instant
from kafkafs.plain_text import columns_of, fitted, one_line
from kafkafs.quantities import short_text, size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

_GAP: Final = "  "


def write_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], stream: TextIO) -> None:
    """Print rows below a line of names; on a terminal that is too narrow, each row as lines of a name and a value.

    A terminal gets no columns without any value.
    """
    found = list(rows)
    width = terminal_width(stream)
    if width is not None and found:
        columns = [column for column in columns if any(row[column] not in (None, "") for row in found)]
    shown = [[one_line(_text(column, row[column])) for column in columns] for row in found]
    widths = [max(columns_of(line[at]) for line in [columns, *shown]) for at in range(len(columns))]
    if width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        _write_blocks(columns, shown, stream)
        return
    are_numbers = [_are_numbers(row[column] for row in found) for column in columns]
    for line in [columns, *shown]:
        cells = zip(line, widths, are_numbers, strict=True)
        padded = (fitted(text, room, is_at_right=is_number) for text, room, is_number in cells)
        stream.write(f"{_GAP.join(padded).rstrip()}\n")


def _write_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    wide = max(map(len, columns))
    for number, row in enumerate(rows):
        if number:
            stream.write("\n")
        for column, text in zip(columns, row, strict=True):
            if text:
                stream.write(f"{column.ljust(wide)}{_GAP}{text}\n")


def terminal_width(stream: TextIO) -> int | None:
    """Return how many columns the terminal has; None if there is none, or it does not tell."""
    try:
        return (os.get_terminal_size(stream.fileno()).columns or None) if stream.isatty() else None
    except (OSError, ValueError):
        return None


def _text(column: str, value: object) -> str:
    """Return a value of this column for people: empty for None."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool() | list() | tuple():
            return json.dumps(value)
        case dict():
            return ",".join(f"{name}:{number}" for name, number in value.items())
        case int() | float():
            return _number_text(column, value)
    return json.dumps(value)


def _number_text(column: str, value: float) -> str:
    lower = column.lower()
    if lower.endswith("timestamp"):
        return str(Instant(int(value))) if 0 <= value < 2**63 else str(value)
    if lower.endswith("bytes"):
        return size_text(value, "")
    if lower.endswith("bytespersecond"):
        return size_text(value, "") + "/s"
    if lower.endswith("seconds"):
        return span_text(value)
    if lower.endswith("share"):
        return f"{100 * value:.1f}%"
    return short_text(value) if isinstance(value, float) else str(value)


def _are_numbers(values: Iterable[object]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given)
