"""Time, as an object that tests can set, and intervals in words."""

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
