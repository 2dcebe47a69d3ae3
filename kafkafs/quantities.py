"""Numbers for people: sizes, counts and spans of time, each short enough for a column."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_COUNTS: Final = ("", "k", "M", "G", "T", "P", "E")
_STEP: Final = 1000
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DIGITS_MAX: Final = 15
_SPANS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def size_text(size_bytes: float, blank: str = " ") -> str:
    """Return a number of bytes with three digits and a unit."""
    size, unit = _scaled(size_bytes)
    return f"{short_text(size) if unit else round(size)}{blank}{_SIZES[unit]}"


def count_text(number: float) -> str:
    """Return a number of things with three digits, in thousands, millions and so on: `12`, `1.5k`, `3.21M`."""
    count, unit = _scaled(number)
    return f"{short_text(count)}{_COUNTS[unit]}"


def short_text(number: float) -> str:
    """Return a number with three digits, or all before the decimal point."""
    return f"{number:.0f}" if abs(number) >= 99.95 else f"{number:.3g}"


def span_text(seconds: float) -> str:
    """Return a span of time in its two largest units, as in names of times."""
    left = max(round(seconds), 0)
    for (unit, unit_s), (smaller, smaller_s) in pairwise(_SPANS):
        if left >= unit_s:
            number, rest = divmod(left, unit_s)
            return f"{number}{unit}" + (f"{rest // smaller_s}{smaller}" if rest >= smaller_s else "")
    return f"{left}s"


def _scaled(number: float) -> tuple[float, int]:
    """Return a number below a thousand, and how often it was divided by that."""
    left, unit = float(number), 0
    while abs(left) >= _STEP - 0.5 and unit < len(_SIZES) - 1:
        left, unit = left / _STEP, unit + 1
    return left, unit


def size_of(text: str) -> int | None:
    """Return the bytes that a user's text means: digits, also with K, M or G after them. None for another text."""
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text if unit == 1 else text[:-1]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
    return int(digits) * unit if is_number else None
