r"""Formats as kcat's `-f` has them, compiled once and then filled in for each record.

    %t topic        %o offset           %k key           %s payload
    %p partition    %T timestamp, ms    %K key's size    %S payload's size
    %h headers      %R payload's size in 4 bytes, the highest first

As in kcat, a null key or payload is empty and has the size -1, and headers are `name=value,name=value` with NULL for
a null value. `%t`, `%k` and `%s` take rpk's `{hex}` and `{base64}`. `%%` is a percent sign; `\n`, `\t`, `\r`, `\\`,
`\xHH` and `\0`, with up to two octal digits after it, are what they are in C.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import hexlify
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from storage.record import Record

    Value: TypeAlias = Callable[[Record], int | bytes]
    Modifier: TypeAlias = Callable[[bytes], bytes]

_PIECE: Final = re.compile(
    rb"(?P<text>[^%\\]+)"
    rb"|\\(?:(?P<letter>[ntr\\])|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>0[0-7]{0,2}))"
    rb"|(?P<percent>%%)"
    rb"|%(?P<token>[tks])(?:\{(?P<modifier>[A-Za-z0-9]+)\})?"
    rb"|%(?P<plain_token>[pohTKSR])"
)
TOKENS: Final = "%t %p %o %k %s %T %h %K %S %R"
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}
_MODIFIERS: Final[dict[bytes, Modifier]] = {b"hex": hexlify, b"base64": b64encode}


class _Token(NamedTuple):
    letter: bytes
    modify: Modifier | None


class KcatFormat:
    """A format; `ValueError`, in a sentence, if the text is none."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_pieces(text.encode("utf-8", "surrogateescape")))
        self.has_tokens = any(isinstance(piece, _Token) for piece in self._pieces)
        """False if it is the same for every record."""

    def over(self, topic: str, partition: int) -> Callable[[Record], bytes]:
        """Return a record of this partition in the format."""
        constants = {b"t": topic.encode(), b"p": b"%d" % partition}
        template = bytearray()
        values: list[Value] = []
        for piece in self._pieces:
            if isinstance(piece, bytes):
                template += piece.replace(b"%", b"%%")
            elif piece.letter in constants:
                constant = constants[piece.letter]
                template += piece.modify(constant) if piece.modify else constant
            else:
                conversion, value = _FIELDS[piece.letter]
                template += conversion
                values.append(_modified(value, piece.modify) if piece.modify else value)
        whole = bytes(template)
        return lambda record: whole % tuple([value(record) for value in values])


def _pieces(text: bytes) -> Iterator[bytes | _Token]:
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None:
            raise ValueError(f"{_shown(text, at)} is nothing a format can have; the tokens are {TOKENS}, and %%")
        yield _piece(found)
        at = found.end()


def _piece(found: re.Match[bytes]) -> bytes | _Token:
    match found.lastgroup:
        case "text":
            return found[0]
        case "letter":
            return _LETTERS[found["letter"]]
        case "hex":
            return bytes([int(found["hex"], 16)])
        case "octal":
            return bytes([int(found["octal"], 8)])
        case "percent":
            return b"%"
        case "modifier":
            modify = _MODIFIERS.get(found["modifier"])
            if modify is None:
                raise ValueError(f"{found[0].decode()} has a modifier that does not exist; {{hex}} and {{base64}} do")
            return _Token(found["token"], modify)
        case _:
            return _Token(found["token"] or found["plain_token"], None)


def _shown(text: bytes, at: int) -> str:
    return repr(text[at:].decode("utf-8", "backslashreplace")[:2])


def _modified(value: Value, modify: Modifier) -> Value:
    def modified(record: Record) -> bytes:
        data = value(record)
        assert isinstance(data, bytes)
        return modify(data)

    return modified


def _key(record: Record) -> bytes:
    return record.key or b""


def _payload(record: Record) -> bytes:
    return record.value or b""


def _key_size(record: Record) -> int:
    return max(record.key_size, -1)


def _payload_size(record: Record) -> int:
    return max(record.value_size, -1)


def _binary_payload_size(record: Record) -> bytes:
    return _payload_size(record).to_bytes(4, "big", signed=True)


def _headers(record: Record) -> bytes:
    return b",".join(
        [
            b"%b=%b" % (name.encode("utf-8", "surrogateescape"), b"NULL" if value is None else value)
            for name, value in record.headers
        ]
    )


_FIELDS: Final[dict[bytes, tuple[bytes, Value]]] = {
    b"o": (b"%d", attrgetter("offset")),
    b"k": (b"%b", _key),
    b"s": (b"%b", _payload),
    b"T": (b"%d", attrgetter("timestamp")),
    b"h": (b"%b", _headers),
    b"K": (b"%d", _key_size),
    b"S": (b"%d", _payload_size),
    b"R": (b"%b", _binary_payload_size),
}
