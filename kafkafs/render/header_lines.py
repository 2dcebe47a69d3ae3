r"""A record's headers as text, a line each: `name: value`.

A null value has its name alone on the line, without the colon. UTF-8 text stands as it is. So that a header is one
line and the first colon ends its name, a backslash is `\\`, a newline `\n`, a carriage return `\r`, a tab `\t`, and
other control characters, bytes that are no UTF-8 and a colon in a name are `\xHH`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.record import Record

_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\\\udc80-\udcff]")
_SPECIAL_IN_NAME: Final = re.compile(r"[\x00-\x1f\x7f\\\udc80-\udcff:]")
_SHORT: Final = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def header_lines(record: Record) -> bytes:
    """The headers in order, duplicates included; nothing if there are none."""
    return "".join([_line(name, value) for name, value in record.headers]).encode()


def _line(name: str, value: bytes | None) -> str:
    escaped = _SPECIAL_IN_NAME.sub(_escape, name)
    if value is None:
        return f"{escaped}\n"
    return f"{escaped}: {_SPECIAL.sub(_escape, value.decode('utf-8', 'surrogateescape'))}\n"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    # A lone surrogate encodes the byte in its low eight bits.
    return _SHORT.get(character) or f"\\x{ord(character) & 0xFF:02x}"
