"""Time, as an object that tests can set, and intervals, between reports and in words."""

from __future__ import annotations

import time
from typing import Final

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))
_PARTS_MAX: Final = 2


class Clock:
    """The operating system's time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as records are stamped."""
        return time.time_ns() // 1_000_000

    def elapsed_s(self) -> float:
        """Seconds since an arbitrary moment; setting the system's time does not affect them."""
        return time.monotonic()


class Interval:
    """Tells a long work when to say how far it is: once each time that so many seconds have passed."""

    def __init__(self, length_s: float = 2.0) -> None:
        self._length_s = length_s
        self._began_s = time.monotonic()

    def is_over(self) -> bool:
        """True if it is; then the next one begins."""
        now_s = time.monotonic()
        if now_s - self._began_s <= self._length_s:
            return False
        self._began_s = now_s
        return True


def duration_text(interval_ms: int) -> str:
    """A non-negative interval in its two largest units, rounded down: `7 d`, `8 d 3 h`, `1 s 5 ms`."""
    parts = []
    left_ms = interval_ms
    for unit, unit_ms in _UNITS:
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == _PARTS_MAX or (parts and not count):
            break
    return " ".join(parts) or "0 ms"
