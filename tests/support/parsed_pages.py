"""A page of HTML taken apart by Python's own parser, and what has to hold of any page that we write."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Final, NamedTuple

VOID: Final = {"meta", "br", "hr", "img", "input", "link"}
HEADING: Final = re.compile(r"h[1-6]")
EXTERNAL: Final = re.compile(
    r"""url\(|@import|https?:|\bsrc\s*=|<script|<link|<iframe|<object|<form|\bon\w+\s*=""", re.IGNORECASE
)


class Element(NamedTuple):
    """An element with its attributes, those that it is in, and all text in it."""

    name: str
    attributes: dict[str, str | None]
    within: tuple[str, ...]
    texts: list[str]

    @property
    def text(self) -> str:
        """The text in it."""
        return "".join(self.texts)


class ParsedPage(HTMLParser):
    """The elements of a page, in their order. Raises `AssertionError` where they are not nested properly."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.source = page.decode()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        assert not self._open, [each.name for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        element = Element(tag, dict(attrs), tuple(each.name for each in self._open), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(each.name for each in self._open), []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> ends nothing"
        assert self._open[-1].name == tag, f"</{tag}> ends {self._open[-1].name}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def all(self, name: str) -> list[Element]:
        """Return the elements of a name."""
        return [each for each in self.elements if each.name == name]


def check_page(page: bytes) -> ParsedPage:
    """Check that a page is well formed, stands alone, and can be heard and reached by keys; return it."""
    parsed = ParsedPage(page)
    _check_alone(parsed)
    names = [each.attributes["id"] for each in parsed.elements if "id" in each.attributes]
    assert len(names) == len(set(names)), "an id is there twice"
    links = [each.attributes["href"] or "" for each in parsed.all("a")]
    assert all(link.startswith("#") and link[1:] in names for link in links), links
    (html,), (title,), (main,) = (parsed.all(name) for name in ("html", "title", "main"))
    assert html.attributes.get("lang") == "en"
    assert title.text
    assert main.attributes["id"] in names
    assert all(each.attributes.get("aria-label") for each in parsed.all("nav"))
    levels = [int(each.name[1]) for each in parsed.elements if HEADING.fullmatch(each.name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), "a heading is left out"
    assert all(each.text.strip() for each in parsed.elements if HEADING.fullmatch(each.name))
    tables = parsed.all("table")
    assert len(parsed.all("caption")) == len(tables)
    assert all(each.text.strip() for each in parsed.all("caption"))
    assert all(each.attributes.get("scope") in {"col", "row"} for each in parsed.all("th"))
    pictures = [each for each in parsed.elements if each.attributes.get("role") in {"img", "region"}]
    assert all(each.attributes.get("aria-label") for each in pictures)
    assert all(each.attributes.get("role") == "img" for each in parsed.all("svg"))
    return parsed


def _check_alone(parsed: ParsedPage) -> None:
    """Check that no element and no style leads anywhere else, also where texts look like markup."""
    allowed = {"a", "article", "body", "caption", "code", "dd", "details", "div", "dl", "dt", "figcaption", "figure"}
    allowed |= {"footer", "h1", "h2", "h3", "head", "header", "html", "i", "li", "main", "meta", "nav", "ol", "p"}
    allowed |= {"path", "section", "small", "span", "style", "summary", "svg", "table", "tbody", "td", "th", "thead"}
    allowed |= {"title", "tr", "ul"}
    assert {each.name for each in parsed.elements} <= allowed
    for element in parsed.elements:
        for name, value in element.attributes.items():
            assert name not in {"src", "srcset", "action", "xlink:href"}
            assert not name.startswith("on")
            assert name != "style" or re.fullmatch(r"(--h|width):\d+%?", value or ""), value
    (style,) = parsed.all("style")
    assert not EXTERNAL.search(style.text)
    policy = [each.attributes["content"] for each in parsed.all("meta") if "http-equiv" in each.attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
