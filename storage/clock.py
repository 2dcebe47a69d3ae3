"""Time, as an object that callers are given: whoever asks for it can be told any."""

from __future__ import annotations

import time


class Clock:
    """The operating system's time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as records are stamped."""
        return time.time_ns() // 1_000_000

    def elapsed_s(self) -> float:
        """Seconds since some moment; setting the system's time does not change how they pass."""
        return time.monotonic()
