"""JSON as Kafka's tools print it: in the form of Jackson, the library that they use, byte for byte.

Bytes are base64, a UUID is written as Kafka writes it, and a number with a fraction as the JVM writes it.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from decimal import Decimal
from typing import Final
from uuid import UUID

from storage.ids import format_id

_HEX_ESCAPE: Final = re.compile(r"\\(?:u00(1[a-f]|0[a-f])|.)")
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_PLAIN_MIN: Final = 1e-3
_PLAIN_END: Final = 1e7


def jackson(value: object) -> str:
    """Return the JSON of a value that holds no float."""
    text = _encode(value)
    return _HEX_ESCAPE.sub(_in_capitals, text) if "\\u00" in text else text


def jackson_with_floats(value: object) -> str:
    """Return the JSON of any value."""
    match value:
        case float():
            return java_double(value)
        case dict():
            members = (f"{jackson(name)}:{jackson_with_floats(each)}" for name, each in value.items())
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(jackson_with_floats, value))}]"
        case _:
            return jackson(value)


def java_double(number: float) -> str:
    """Return the number as a JVM since 19 writes it, with the fewest digits that tell it from others.

    What is no number is a string, as Jackson has it.
    """
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else f'"{"-" if number < 0 else ""}Infinity"'
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if number == 0 or _PLAIN_MIN <= abs(number) < _PLAIN_END:
        whole, _, fraction = format(Decimal(text).scaleb(exponent), "f").partition(".")
        return f"{minus}{whole}.{fraction.rstrip('0') or '0'}"
    return f"{minus}{text[0]}.{text[1:].rstrip('0') or '0'}E{exponent + len(text) - 1}"


def jvm_encoded(text: str) -> bytes:
    """Return the text in UTF-8, with undecodable bytes replaced as the JVM replaces them."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # The JVM takes an encoded surrogate for one mistake, and Python for one a byte.
        data = _SURROGATE.sub(b"\xff", text.encode("utf-8", "surrogateescape"))
        return data.decode("utf-8", "replace").encode()


def _in_capitals(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] is None else f"\\u00{escape[1].upper()}"


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return format_id(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_encode: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_as_text
).encode
