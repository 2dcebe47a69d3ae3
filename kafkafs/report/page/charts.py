"""Charts as shapes alone, with words beside them, and each with its figures in a table.

No library draws them: two paths do, which need no script and take a few kilobytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkafs.report.page.markup import Markup, element, raw
from kafkafs.report.page.tables import folded, table
from kafkafs.report.page.words import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WIDTH = 1000
_HEIGHT = 100


class Chart(NamedTuple):
    """A chart of values at times: what it shows, in a title and in a sentence, and how a value is written."""

    title: str
    summary: str
    value_text: Callable[[float], str]
    is_area: bool = False


def chart(drawn: Chart, times: Sequence[int], end_ms: int, values: Sequence[float]) -> Markup:
    """Draw values, each from its time to the next one."""
    top = max(values, default=0) or 1
    heights = [round(_HEIGHT * value / top, 1) for value in values]
    path = _area(heights) if drawn.is_area else _bars(heights)
    picture = element(
        "svg",
        element("path", d=raw(path)),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{drawn.title}. {drawn.summary}",
    )
    plot = element(
        "div",
        element("span", drawn.value_text(top), class_="high"),
        picture,
        element("span", "0", class_="low"),
        element("span", element("span", time_text(times[0])), element("span", time_text(end_ms)), class_="times"),
        class_="plot",
    )
    rows = [(time_text(time), drawn.value_text(value)) for time, value in zip(times, values, strict=True)]
    figures = table(f"{drawn.title}: figures", ("From (UTC)", "Value"), rows, numbers_from=2)
    caption = element("figcaption", drawn.title)
    return element(
        "figure", caption, element("p", drawn.summary, class_="quiet"), plot, folded(f"{drawn.title}: figures", figures)
    )


def _bars(heights: Sequence[float]) -> str:
    wide = _WIDTH / len(heights)
    return "".join(
        f"M{number * wide:.1f} {_HEIGHT}v-{height:g}h{wide * 0.85:.1f}v{height:g}z"
        for number, height in enumerate(heights)
        if height
    )


def _area(heights: Sequence[float]) -> str:
    wide = _WIDTH / len(heights)
    points = "".join(f"L{(number + 1) * wide:.1f} {_HEIGHT - height:g}" for number, height in enumerate(heights))
    return f"M0 {_HEIGHT}{points}V{_HEIGHT}z"
