"""Numbers for people: sizes and spans of time, each short enough for a column."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_STEP: Final = 1000
_SPANS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def size_text(size_bytes: float, blank: str = " ") -> str:
    """Return a number of bytes with three digits and a unit."""
    size, unit = float(size_bytes), 0
    while abs(size) >= _STEP - 0.5 and unit < len(_SIZES) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{short_text(size) if unit else round(size)}{blank}{_SIZES[unit]}"


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
