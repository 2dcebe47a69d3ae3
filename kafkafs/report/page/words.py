"""Numbers, times and keys of a report in words."""

from __future__ import annotations

from typing import Final

from kafkafs.locator.times import Instant
from kafkafs.plain_text import one_line
from kafkafs.quantities import short_text, size_text, span_text

NONE: Final = "–"  # noqa: RUF001 -- a dash, as in tables in print
_KEY_CHARACTERS_MAX: Final = 80
_ELLIPSIS: Final = "…"


def time_text(timestamp: int | None) -> str:
    """Return a time up to its minute; a dash for none."""
    if timestamp is None or not 0 <= timestamp < 2**63:
        return NONE
    date, _, time = str(Instant(timestamp)).partition("T")
    return f"{date} {time[:5]}" if time else "after 9999"


def number_text(number: int | None) -> str:
    """Return a number with commas; a dash for none."""
    return NONE if number is None else f"{number:,}"


def bytes_text(size_bytes: float | None) -> str:
    """Return a size; a dash for none."""
    return NONE if size_bytes is None else size_text(size_bytes)


def rate_text(amount: float, span_ms: int) -> str:
    """Return how much that is in a second."""
    return short_text(1000 * amount / span_ms)


def age_text(seconds: int | None) -> str:
    """Return an age; a dash for none."""
    return NONE if seconds is None else span_text(seconds)


def share_text(part: float, whole: float) -> str:
    """Return a part in percent; a dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else NONE


def gain_text(stored_bytes: int, plain_bytes: int) -> str:
    """Return what a codec saves; a dash where nothing was decompressed."""
    if not stored_bytes or not plain_bytes:
        return NONE
    return f"{plain_bytes / stored_bytes:.2f} : 1 ({100 * (1 - stored_bytes / plain_bytes):.0f} % saved)"


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number of things, which `many` names if more than an s tells them from one."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def key_text(key: bytes | None) -> str:
    """Return a key: its text, or its bytes in hex where it has none; cut if it is long."""
    if key is None:
        return "(no key)"
    try:
        text = one_line(key.decode())
    except UnicodeDecodeError:
        text = f"0x{key.hex()}"
    return text if len(text) <= _KEY_CHARACTERS_MAX else f"{text[:_KEY_CHARACTERS_MAX]}{_ELLIPSIS}"
