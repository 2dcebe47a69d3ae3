"""A lock that costs nothing as long as nobody else wants it: the event loop is asked only by those who wait."""

from __future__ import annotations

from typing import Self

import trio


class Turn:
    """For one task at a time, in the order in which they come."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None

    async def take(self) -> None:
        """Return once it is the caller's turn; who is cancelled meanwhile does not get it."""
        if not self._is_taken:
            self._is_taken = True
            return
        if self._waiting is None:
            self._waiting = trio.lowlevel.ParkingLot()
        await self._waiting.park()  # it is handed over taken

    def release(self) -> None:
        """Let the one who has waited longest have it."""
        assert self._is_taken
        if not (self._waiting and self._waiting.unpark()):
            self._is_taken = False

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
