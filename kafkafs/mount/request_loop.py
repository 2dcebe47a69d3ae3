"""How pyfuse3 waits for the kernel's next request: a look in place before the event loop is asked.

pyfuse3 goes through trio's event loop for each request, which costs more than most requests do. A worker that has
answered one looks for the next itself, at most `STREAK_MAX` times in a row, while the others stay parked; so other
tasks wait no longer than that many short requests take.
"""

from __future__ import annotations

import select
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pyfuse3
import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAK_MAX: Final = 64


class RequestLoop:
    """What stands in for trio inside pyfuse3 for as long as a mount is served."""

    def __init__(self) -> None:
        self._poll: select.poll | None = None
        self._streak = 0
        self._is_in_place = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have pyfuse3 wait in this way meanwhile, as `pyfuse3.asyncio` has it wait in another."""
        module = vars(pyfuse3)
        module["trio"] = SimpleNamespace(
            ClosedResourceError=trio.ClosedResourceError,
            Lock=lambda: _Turn(self),
            lowlevel=SimpleNamespace(
                current_task=trio.lowlevel.current_task,
                current_trio_token=trio.lowlevel.current_trio_token,
                notify_closing=trio.lowlevel.notify_closing,
                wait_readable=self._wait_readable,
            ),
            open_nursery=trio.open_nursery,
        )
        try:
            yield
        finally:
            module["trio"] = trio

    def enter(self) -> bool:
        """Whether the next request is there by now, so that it is answered in place."""
        if self._poll is None or self._streak >= STREAK_MAX or not self._poll.poll(0):
            self._streak = 0
            return False
        self._streak += 1
        self._is_in_place = True
        return True

    def leave(self) -> bool:
        """Whether the turn that ends was one in place; no other task has run since it was entered."""
        was_in_place, self._is_in_place = self._is_in_place, False
        return was_in_place

    async def _wait_readable(self, descriptor: int) -> None:
        """Wait until there is a request that nobody else has taken meanwhile: reading in vain would block."""
        if self._is_in_place:
            return
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)
        while not self._poll.poll(0):
            await trio.lowlevel.wait_readable(descriptor)


class _Turn:
    """The lock under which workers wait; one that finds a request in place does not need it."""

    def __init__(self, loop: RequestLoop) -> None:
        self._loop = loop
        self._lock = trio.Lock()

    async def __aenter__(self) -> None:
        if not self._loop.enter():
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        if not self._loop.leave():
            self._lock.release()
