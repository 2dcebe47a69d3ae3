"""How the memory of a process that lives for weeks stays together."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8  # M_ARENA_MAX of glibc's mallopt


def share_one_arena() -> None:
    """Have all threads allocate from one arena, before there are several.

    Buffers of any size come and go in threads that come and go, and an arena for each keeps what was the most of it.
    What is allocated under Python's lock does not contend for it. Other C libraries than glibc have no such call.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
