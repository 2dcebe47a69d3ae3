"""Keeps the memory of a long-lived process from fragmenting."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8  # M_ARENA_MAX of glibc's mallopt


def share_one_arena() -> None:
    """Make all threads allocate from one arena. Call it before there are several threads.

    Threads come and go with buffers of any size, and an arena for each would keep its peak. Allocations under Python's
    lock do not contend. Other C libraries than glibc have no such call.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
