"""Text from a store or from a user as terminals and logs get it: without control characters.

These are written as in a properties file (`\\n`, `\\u001B`). A name may have any of them, and a terminal takes them for
commands, a reader of a log for the end of a line. Only the bytes of values that were asked for go out as they are.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from typing import Final

_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""C0 and C1, and what ends lines or turns their direction."""
_IN_LINE: Final = re.compile(f"[{_CONTROLS}]")
_IN_FIELD: Final = re.compile(rf"[\\{_CONTROLS}]")
_IN_TEXT: Final = re.compile(rf"(?![\n\t])[{_CONTROLS}]")
_IN_JSON: Final = re.compile(f"[{_CONTROLS}\ud800-\udfff]")
"""Also the bytes of names that are no UTF-8, which all JSON is."""
_CUT: Final = "~"
"""The end of a text that was cut: no letter of a name, and in every character set."""


def one_line(text: str) -> str:
    """Return a message in one line."""
    return _IN_LINE.sub(_escaped, text)


def one_line_of_json(text: str) -> str:
    """Return JSON in one line of UTF-8."""
    return _IN_JSON.sub(_escaped, text)


def field(text: str) -> str:
    """Return a value as one field of a line, from which it can be told: backslashes are escaped too."""
    return _IN_FIELD.sub(_escaped, text)


def lines(text: str) -> str:
    """Return a text of several lines, in which tabs stay as well."""
    return _IN_TEXT.sub(_escaped, text)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a line of text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def fitted(text: str, width: int, *, is_at_right: bool = False) -> str:
    """Return a line of text that takes so many columns: filled with blanks, or cut, which its end says."""
    missing = width - columns_of(text)
    if missing < 0:
        kept = ""
        left = width - len(_CUT)
        for character in text:
            left -= _columns(character)
            if left < 0:
                break
            kept += character
        text = kept + _CUT if width else ""
        missing = width - columns_of(text)
    return " " * missing + text if is_at_right else text + " " * missing


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:  # it is drawn over the one before, or not at all
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _escaped(found: re.Match[str]) -> str:
    from storage.properties import escaped_character  # hardly any text needs it, and every command starts with this

    return escaped_character(found[0])


class PlainFormatter(logging.Formatter):
    """Formats each record in one line, below which an exception has its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines; another formatter may have left those of its exception."""
        record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the name in logging
        """Return the line."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 -- the name in logging
        """Return the lines of a traceback."""
        return lines(super().formatException(ei))
