"""Dispatch: work runs inline while recent work of its kind was quick, and otherwise in a thread.

A thread costs more than a small read, and a long read in the event loop delays every request. So the first work of a
kind goes to a thread, where it is timed; so does work that comes while other work of its kind is in one, as it may have
to wait.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK_NS: Final = 1_000_000
SLOW_NS: Final = 1_500_000
PROBATION: Final = 8  # how many go to threads after one that was slow

T = TypeVar("T")


class Pace:
    """How quick recent work of one kind was; long work is timed apart from short work."""

    __slots__ = ("_in_threads", "_to_prove")

    def __init__(self) -> None:
        self._to_prove = [1, 1]  # short and long
        self._in_threads = 0

    async def run(self, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Run it. A cancelled call finishes first."""
        if self._to_prove[is_long] <= 0 and not self._in_threads:
            begun_ns = perf_counter_ns()
            try:
                return work()
            finally:
                if perf_counter_ns() - begun_ns > SLOW_NS:
                    self._to_prove[is_long] = PROBATION
        return await self.run_in_thread(work, is_long=is_long)

    async def run_in_thread(self, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Run it in a thread, however quick it may be."""
        taken_ns = SLOW_NS

        def timed() -> T:
            nonlocal taken_ns
            begun_ns = perf_counter_ns()
            try:
                return work()
            finally:
                taken_ns = perf_counter_ns() - begun_ns

        self._in_threads += 1
        try:
            return await in_thread(timed)
        finally:
            self._in_threads -= 1
            self._to_prove[is_long] -= taken_ns <= QUICK_NS


class DirectoryPaces:
    """How quickly the directories of logs were found, opened and listed."""

    def __init__(self) -> None:
        self.lookup, self.opendir, self.readdir = Pace(), Pace(), Pace()


async def in_thread(work: Callable[[], T]) -> T:
    """Run it in a thread. A cancelled call finishes first."""
    return await trio.to_thread.run_sync(work)
