"""A limit of the bytes that are read and written each second."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.clock import Clock

_LONGEST_WAIT_S: Final = 1.0


def _never() -> bool:
    return False


class Throttle:
    """Limits the bytes a second, read and written together; any number of threads may share it.

    `wait` returns after so many seconds, or before. Idle time is not made up for later.
    """

    def __init__(self, clock: Clock, bytes_per_second_max: float, wait: Callable[[float], object]) -> None:
        self._clock = clock
        self._bytes_per_second_max = bytes_per_second_max
        self._wait = wait
        self._free_s = clock.elapsed_s()  # when all that was done will have taken the time that it may
        self._lock = Lock()

    def took(self, size_bytes: int, is_stopped: Callable[[], bool] = _never) -> None:
        """Return once the read or written bytes have taken long enough, or when stopped."""
        with self._lock:
            now_s = self._clock.elapsed_s()
            self._free_s = free_s = max(self._free_s, now_s) + size_bytes / self._bytes_per_second_max
        while (left_s := free_s - self._clock.elapsed_s()) > 0 and not is_stopped():
            self._wait(min(left_s, _LONGEST_WAIT_S))
