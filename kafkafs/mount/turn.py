"""A fair lock that costs nothing without contention: only waiting tasks use the event loop."""

from __future__ import annotations

from typing import Self

import trio


class Turn:
    """Admits one task at a time, in the order in which they come."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None

    def take_at_once(self) -> bool:
        """Take the turn if it is free; False if it is another task's."""
        if self._is_taken:
            return False
        self._is_taken = True
        return True

    async def take(self) -> None:
        """Return once it is the caller's turn; a cancelled caller does not get it."""
        if self.take_at_once():
            return
        if self._waiting is None:
            self._waiting = trio.lowlevel.ParkingLot()
        await self._waiting.park()  # it is handed over taken

    def release(self) -> None:
        """Pass it to the task that has waited longest."""
        assert self._is_taken
        if not (self._waiting and self._waiting.unpark()):
            self._is_taken = False

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
