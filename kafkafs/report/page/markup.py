"""HTML made of elements. Everything else is text, and is escaped: no name of a store becomes markup.

Control characters and lone surrogates are written as in messages, so that no name makes the page invalid.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kafkafs.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXT_MAX: Final = 400
"""The characters of a text that are shown. Names in a store may be so long that a page would have no room for them."""
_WHOLE_MAX: Final = 32
"""The characters of code that is not broken into lines."""
_VOID: Final = frozenset({"meta", "path", "rect"})


class Markup(str):
    """Text that is HTML already; only this module makes it of other text."""

    __slots__ = ()


NOTHING: Final = Markup("")


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. Attributes that are None are left out; `class_` and `aria_label` are written as in HTML."""
    given = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Markup(f"<{name}{given}>" if name == "meta" else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{''.join(map(text, children))}</{name}>")


def joined(parts: Iterable[object]) -> Markup:
    """Return parts one after another."""
    return Markup("".join(map(text, parts)))


def text(child: object) -> Markup:
    """Return a child as HTML: markup as it is, None as nothing, everything else escaped."""
    if isinstance(child, Markup):
        return child
    return NOTHING if child is None else Markup(escape(_plain(str(child))))


def raw(trusted: str) -> Markup:
    """Return HTML, or a style sheet, that is written in this package."""
    return Markup(trusted)


def prose(sentence: str) -> Markup:
    """Return a sentence in which what stands between backticks is code."""
    parts = sentence.split("`")
    return joined(
        element("code", part, class_="whole" if len(part) <= _WHOLE_MAX else None) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _attribute(name: str, value: object) -> str:
    written = name.rstrip("_").replace("_", "-")
    shown = value if isinstance(value, Markup) else escape(_plain(str(value)))
    return f' {written}="{shown}"'


def _plain(value: str) -> str:
    if len(value) > _TEXT_MAX:
        value = f"{value[:_TEXT_MAX]}…"
    return one_line(value.encode("utf-8", "backslashreplace").decode())
