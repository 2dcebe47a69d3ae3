"""Tables with a caption and heads of columns, cut to so many rows."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.report.page.markup import NOTHING, Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Cell(NamedTuple):
    """A cell of another kind than most: `name` may be broken anywhere, `words` are sentences."""

    kind: str
    child: object


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers_from: int | None = None,
    rows_max: int = 500,
    count: int | None = None,
) -> Markup:
    """Return a table in a part of the page that scrolls by itself, which a keyboard reaches.

    Columns from the number `numbers_from` on, counted from 2 to 5, hold numbers. Of `count` rows, if there are more
    than `rows_max`, only the first are shown.
    """
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = joined(_row(row) for row in islice(rows, rows_max))
    kind = None if numbers_from is None else f"n{numbers_from}"
    made = element("table", element("caption", caption), element("thead", head), element("tbody", body), class_=kind)
    cut = _cut(count, rows_max)
    return joined([element("div", made, class_="wide", role="region", aria_label=caption, tabindex=0), cut])


def _row(row: Sequence[object]) -> Markup:
    return element(
        "tr",
        *(
            element("td", cell.child, class_=cell.kind) if isinstance(cell, Cell) else element("td", cell)
            for cell in row
        ),
    )


def _cut(count: int | None, rows_max: int) -> Markup:
    if count is None or count <= rows_max:
        return NOTHING
    return element(
        "p",
        f"These are the first {rows_max:,} of {count:,}; ",
        element("code", "kafkafs report --json"),
        " has all.",
        class_="quiet",
    )


def folded(summary: object, *children: object, is_open: bool = False) -> Markup:
    """Return what a reader may unfold."""
    return element("details", element("summary", summary), *children, open="" if is_open else None)
