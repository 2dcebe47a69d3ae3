"""Threads that take turns at every look at a file and every change of one, in an order that a seed decides.

Between two such operations threads do not see each other, so that everything that can come of their running at once
comes of some order. The same seed gives the same order. Who has a lock while it is at a file may not be waited for.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final

from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from storage.files import FileStatus, ReadableFile, WritableFile

_WAIT_S_MAX: Final = 30


class TurnFiles(MemoryFiles):
    """Files in memory; in `run` threads take turns at their operations, otherwise nothing is special about them."""

    def __init__(self) -> None:
        super().__init__()
        self._turns: _Turns | None = None

    def run(self, seed: int, *acts: Callable[[], None]) -> None:
        """Run each act in a thread until all have ended; raises the first error."""
        turns = self._turns = _Turns(random.Random(seed), len(acts))
        threads = [threading.Thread(target=turns.act, args=(number, act)) for number, act in enumerate(acts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._turns = None
        if turns.errors:
            raise turns.errors[0]

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading, when it is this thread's turn."""
        self._wait()
        return super().open_reading(path)

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        """Open a file for writing, or make one, when it is this thread's turn."""
        self._wait()
        return super().open_writing(path, create=create, exclusive=exclusive)

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        """Return the status of the path, when it is this thread's turn."""
        self._wait()
        return super().status(path)

    def step(self, path: str, partly: Callable[[random.Random], None] | None = None) -> None:
        """Count a step, when it is this thread's turn."""
        self._wait()
        super().step(path, partly)

    def _wait(self) -> None:
        if self._turns is not None:
            self._turns.wait()


class _Turns:
    """The turns of the threads that have not ended."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.errors: list[BaseException] = []
        self._rng = rng
        self._running = list(range(count))
        self._turn = rng.choice(self._running)
        self._changed = threading.Condition()
        self._mine = threading.local()

    def act(self, number: int, act: Callable[[], None]) -> None:
        self._mine.number = number
        try:
            self._await(number)
            act()
        except BaseException as error:  # noqa: BLE001 -- raised again by the thread that waits for all
            self.errors.append(error)
        finally:
            with self._changed:
                self._running.remove(number)
                self._pass_on()

    def wait(self) -> None:
        """Let a drawn thread go on, and return when it is the caller again."""
        with self._changed:
            self._pass_on()
        self._await(self._mine.number)

    def _pass_on(self) -> None:
        if self._running:
            self._turn = self._rng.choice(self._running)
            self._changed.notify_all()

    def _await(self, number: int) -> None:
        with self._changed:
            is_mine = self._changed.wait_for(lambda: self._turn == number, _WAIT_S_MAX)
            assert is_mine, "the thread whose turn it is waits for a lock of this one"
