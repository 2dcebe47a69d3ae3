"""Java's `.properties` text, as brokers' settings files have it: read as Java reads it, written as Java writes it.

Decoding a file's bytes is left to callers. Java itself decodes them as ISO-8859-1; the text written here is plain
ASCII, so that it is the same in every encoding.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from storage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
# A key ends at the first separator or blank that has no backslash before it; one separator may follow among blanks.
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_READ_AS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN_AS: Final = {character: f"\\{letter}" for letter, character in _READ_AS.items()} | {
    special: f"\\{special}" for special in "\\=:#!"
}

_UNPRINTABLE: Final = re.compile("[^ -~]")
_SPECIAL: Final = re.compile(r"[^ -~]|[\\=:#!]")


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in their order; of several with a key the last one holds.

    Raises `ConfigError` for a unicode escape that is not four hexadecimal digits, which Java refuses too. A lone
    backslash at the very end is an empty key to Java, and is ignored here.
    """
    properties = {}
    for line in _logical_lines(text):
        entry = _ENTRY.match(line)
        assert entry is not None, "the pattern matches every text"
        properties[_unescaped(entry[1])] = _unescaped(entry[2])
    return properties


def format_properties(properties: Mapping[str, str], comments: Iterable[str] = ()) -> str:
    """Return the text that `parse_properties` and Java read as these properties, in their order, below the comments."""
    lines = [f"#{_ascii(line)}" for comment in comments for line in _LINE_END.split(comment)]
    for key, value in properties.items():
        written_key = _escaped(key).replace(" ", "\\ ")  # a blank would end it
        written_value = _escaped(value)
        if written_value.startswith(" "):
            written_value = f"\\{written_value}"  # blanks before a value are skipped
        lines.append(f"{written_key}={written_value}")
    return "".join(f"{line}\n" for line in lines)


def escaped_character(character: str) -> str:
    """Return the character as it is written in a value."""
    return _WRITTEN_AS.get(character) or _ascii(character)


def _logical_lines(text: str) -> Iterator[str]:
    """Iterate over lines without comments, blank lines and leading blanks; a backslash at the end joins two lines."""
    line = ""
    for part in _LINE_END.split(text):
        piece = part.lstrip(_BLANKS)
        if not line and piece[:1] in {"", "#", "!"}:
            continue
        backslashes = len(piece) - len(piece.rstrip("\\"))
        if backslashes % 2:
            line += piece[:-1]
        else:
            yield line + piece
            line = ""
    if line:
        yield line


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1]:
            return chr(int(escape[1], 16))
        if escape[2] == "u":
            raise ConfigError(f"{text[:100]!r} has a \\u that four hexadecimal digits do not follow")
        return _READ_AS.get(escape[2], escape[2])

    plain = _ESCAPE.sub(character, text)
    # Two escapes may be the halves of one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: escaped_character(found[0]), text)


def _ascii(text: str) -> str:
    """The text with everything that is not a printable character of ASCII as unicode escapes."""
    return _UNPRINTABLE.sub(lambda found: _unicode_escapes(found[0]), text)


def _unicode_escapes(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))
