"""Threads that prepare what is likely to be read next while a reply is on its way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

_THREADS: Final = ThreadPoolExecutor(2, "ahead", initializer=MEMORY.never_wait_here)


def go_ahead(work: Callable[[], None]) -> None:
    """Run it soon in a thread. Errors are dropped: the next read raises them again."""
    _THREADS.submit(_begin, work)


def _begin(work: Callable[[], None]) -> None:
    with MEMORY.work():
        work()
