"""Memory that a burst of requests leaves behind is given back once the mount is quiet."""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Final

import trio

from kafkafs.allocation import give_back_freed_memory
from kafkafs.mount.dispatch import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 2.0
BUSY_S: Final = 0.1
"""A process that used more processor time than this since the last look was busy."""


class Quiet:
    """Gives memory back when a busy time has ended. `used_s` is the processor time that the process has used so far."""

    def __init__(
        self, give_back: Callable[[], None] = give_back_freed_memory, used_s: Callable[[], float] = process_time
    ) -> None:
        self._give_back = give_back
        self._used_s = used_s
        self._seen_s = used_s()
        self._was_busy = False

    async def run(self) -> None:
        """Look now and then until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Give memory back if the process was busy, and is not since the last look."""
        used_s = self._used_s()
        is_busy = used_s - self._seen_s > BUSY_S
        self._seen_s = used_s
        if self._was_busy and not is_busy:
            await in_thread(self._give_back)
        self._was_busy = is_busy
