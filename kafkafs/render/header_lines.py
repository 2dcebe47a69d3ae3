r"""A record's headers as text, a line each: `name: value`.

A null value has its name alone on the line, without the colon. UTF-8 text stands as it is. So that a header is one
line and the first colon ends its name, a backslash is `\\`, a newline `\n`, a carriage return `\r`, a tab `\t`, and
other control characters, bytes that are no UTF-8 and a colon in a name are `\xHH`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.record import Record

_SHORT: Final = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_CONTROLS: Final = (*range(0x20), 0x7F)
_FIRST_LONE_SURROGATE: Final = 0xDC80  # which stands for the byte 0x80, and so on
_ESCAPES: Final[Mapping[int, str]] = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{_FIRST_LONE_SURROGATE + code: f"\\x{0x80 + code:02x}" for code in range(0x80)},
    **{ord(character): escape for character, escape in _SHORT.items()},
}
_ESCAPES_IN_NAME: Final[Mapping[int, str]] = {**_ESCAPES, ord(":"): r"\x3a"}
_BLOCK_CHARACTERS: Final = 64 * 1024
"""How much is escaped in one go: other threads wait meanwhile."""


def header_lines(record: Record) -> bytes:
    """The headers in order, duplicates included; nothing if there are none."""
    return "".join([_line(name, value) for name, value in record.headers]).encode()


def _line(name: str, value: bytes | None) -> str:
    escaped = _escaped(name, _ESCAPES_IN_NAME)
    if value is None:
        return f"{escaped}\n"
    return f"{escaped}: {_escaped(value.decode('utf-8', 'surrogateescape'), _ESCAPES)}\n"


def _escaped(text: str, escapes: Mapping[int, str]) -> str:
    if len(text) <= _BLOCK_CHARACTERS:
        return text.translate(escapes)
    blocks = range(0, len(text), _BLOCK_CHARACTERS)
    return "".join([text[start : start + _BLOCK_CHARACTERS].translate(escapes) for start in blocks])
