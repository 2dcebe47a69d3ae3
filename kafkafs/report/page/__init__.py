"""A report as one HTML page: no script, no network, no other file, and nothing of a store's that is not escaped.

markup    elements, and the escaping of all else
style     the style sheet
tables, charts, maps   what sections are made of
summary, sections, listings   the sections
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.report.page.growth import growth
from kafkafs.report.page.listings import about, findings, groups, transactions
from kafkafs.report.page.maps import maps
from kafkafs.report.page.markup import Markup, element, joined, raw
from kafkafs.report.page.sections import codecs, keys, partitions, sizes, what_is_next
from kafkafs.report.page.style import STYLE
from kafkafs.report.page.summary import summary
from kafkafs.report.page.words import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.report.facts import Report

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_SECTIONS: Final[tuple[tuple[str, str, Callable[[Report], Markup]], ...]] = (
    ("summary", "Summary", summary),
    ("findings", "Findings", findings),
    ("sizes", "Sizes", sizes),
    ("growth", "Growth and rates", growth),
    ("next", "What is next", what_is_next),
    ("maps", "Segment maps", maps),
    ("codecs", "Codecs", codecs),
    ("keys", "Hot keys", keys),
    ("groups", "Groups and lag", groups),
    ("transactions", "Open transactions", transactions),
    ("partitions", "Partitions", partitions),
    ("about", "How this page was made", about),
)


def page_of(report: Report) -> bytes:
    """Return the page."""
    title = f"Kafka store {report.store}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", raw(STYLE)),
    )
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        element("header", element("h1", title), element("p", _made(report), class_="quiet")),
        element(
            "nav",
            element("ul", *(element("li", element("a", name, href=f"#{place}")) for place, name, _ in _SECTIONS)),
            aria_label="Sections",
        ),
        element("main", joined(_section(report, *each) for each in _SECTIONS), id="main", tabindex=-1),
        element("footer", element("p", f"kafkafs {report.version}")),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()


def _section(report: Report, place: str, name: str, content: Callable[[Report], Markup]) -> Markup:
    heading = element("h2", name, id=place)
    return element("section", heading, content(report), aria_labelledby=place)


def _made(report: Report) -> str:
    depth = "everything was read" if report.is_full else "from headers, indexes and samples"
    return f"As it was at {time_text(report.made_ms)} UTC; {depth}."
