"""Programs that wait for an answer: one that gets a signal meanwhile has it soon, EINTR.

A program that waits for a mount handles no signal, not even SIGKILL, until the mount answers. pyfuse3 does not pass on
that a signal has come, so long reads look for it themselves, and `Waits` looks on behalf of requests without a thread.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from contextlib import contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kafkafs.content.patience import Patience
from kafkafs.mount.log import FailedLooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOOK_S: Final = 0.25
"""How often a request that takes long looks for a signal."""

KILLING: Final = (signal.SIGKILL,)
"""What the kernel makes of each signal that ends a process which does not handle it."""
ENDING: Final = (*KILLING, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_THREADS_MAX: Final = 64
"""At how many threads of a process a look looks."""
_WAITS_MAX: Final = 256
"""At how many waiting requests a look looks. The next look begins with the others."""
_PROCESS: Final = re.compile(rb"^Tgid:\s*(\d+)$", re.MULTILINE)
_MASK: Final = re.compile(rb"^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt):\s*([0-9a-f]+)$", re.MULTILINE)


class ReaderPatience(Patience):
    """The patience of a read for one process, whose number is 0 if it is not known here.

    Of a file that may be mapped only SIGKILL counts: an error kills the process that maps it.
    """

    def __init__(self, process: int, limit_s: float = inf, *, may_be_mapped: bool = False) -> None:
        super().__init__(limit_s)
        self._process = process
        self.signals = KILLING if may_be_mapped else ENDING
        """Those that count."""
        self._next_look_s = monotonic() + LOOK_S

    def check(self) -> None:
        """Raise EINTR if the process got a signal to end, and has yet to handle it."""
        now_s = monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if is_told_to_end(self._process, self.signals):
                raise _interrupted()


class Program(NamedTuple):
    """A process that waits for an answer, by the number of any of its threads, and the signals that count for it.

    Signals that the program catches count only if `is_catching`. Programs expect EINTR of reads; of other requests only
    signals that are not caught count, which end the program before it sees the error.
    """

    thread: int
    signals: tuple[int, ...] = ENDING
    is_catching: bool = False

    def is_told_to_end(self) -> bool:
        """True if one of the signals waits."""
        return is_told_to_end(process_of(self.thread), self.signals, is_catching=self.is_catching)


class Waits:
    """The requests that wait for a thread. One of a program that is told to end meanwhile ends with EINTR.

    Only the event loop's thread may use this. The caller runs `run`.
    """

    def __init__(self) -> None:
        self._waiting: dict[trio.CancelScope, Program] = {}
        self._begun = trio.Event()

    @contextmanager
    def of(self, program: Program) -> Iterator[None]:
        """Make a block in which a request of this program waits; raises EINTR if it is told to end."""
        with trio.CancelScope() as scope:
            self._waiting[scope] = program
            self._begun.set()
            try:
                yield
            finally:
                del self._waiting[scope]
        if scope.cancelled_caught:
            raise _interrupted()

    async def run(self) -> None:
        """Look for signals while requests wait, until cancelled. A look that fails ends no mount."""
        failed = FailedLooks("signals")
        limiter = trio.CapacityLimiter(1)  # the threads of requests may all be taken
        while True:
            if not self._waiting:
                self._begun = trio.Event()
                await self._begun.wait()
            await trio.sleep(LOOK_S)
            with failed.logged():
                await self._look(limiter)

    async def _look(self, limiter: trio.CapacityLimiter) -> None:
        looked_at = list(islice(self._waiting.items(), _WAITS_MAX))
        programs = {program for _, program in looked_at}
        ending = await trio.to_thread.run_sync(_told_to_end, programs, limiter=limiter)
        for scope, program in looked_at:
            if program in ending:
                scope.cancel()
            elif scope in self._waiting:
                self._waiting[scope] = self._waiting.pop(scope)


def _told_to_end(programs: Iterable[Program]) -> set[Program]:
    return {program for program in programs if program.is_told_to_end()}


def _interrupted() -> InterruptedError:
    return InterruptedError(errno.EINTR, os.strerror(errno.EINTR))


def process_of(thread: int) -> int:
    """Return the number of a thread's process, which does not end with the thread; 0 if it is gone."""
    found = _PROCESS.search(_status(thread))
    return 0 if found is None else int(found[1])


def is_told_to_end(process: int, signals: Iterable[int] = ENDING, *, is_catching: bool = True) -> bool:
    """True if one of these signals waits for a thread of the process that neither blocks nor ignores it.

    Those that the program catches count only if `is_catching`.
    """
    bits = sum(1 << (number - 1) for number in signals)
    try:
        threads = [int(thread.name) for thread in islice(Path(f"/proc/{process}/task").iterdir(), _THREADS_MAX)]
    except OSError:
        return False
    return any(_waiting(thread, is_catching=is_catching) & bits for thread in threads)


def _waiting(thread: int, *, is_catching: bool) -> int:
    masks = {name: int(mask, 16) for name, mask in _MASK.findall(_status(thread))}
    pending = masks.get(b"SigPnd", 0) | masks.get(b"ShdPnd", 0)
    caught = 0 if is_catching else masks.get(b"SigCgt", 0)
    return pending & ~masks.get(b"SigBlk", 0) & ~masks.get(b"SigIgn", 0) & ~caught


def _status(thread: int) -> bytes:
    try:
        return Path(f"/proc/{thread}/status").read_bytes()
    except OSError:
        return b""
