"""Programs that wait for a read: one that gets a signal meanwhile has its answer soon, EINTR.

A program that waits for a mount handles no signal, not even SIGKILL, until the mount answers. pyfuse3 does not
pass on that a signal has come, so long reads look for it themselves.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from kafkafs.content.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOK_S: Final = 0.25
"""How often a read that takes long looks for a signal."""

_KILLING: Final = (signal.SIGKILL,)
"""What the kernel makes of each signal that ends a process which does not handle it."""
ENDING: Final = (*_KILLING, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_THREADS_MAX: Final = 64
"""At how many threads of a process a look looks."""
_PROCESS: Final = re.compile(rb"^Tgid:\s*(\d+)$", re.MULTILINE)
_MASK: Final = re.compile(rb"^(SigPnd|ShdPnd|SigBlk|SigIgn):\s*([0-9a-f]+)$", re.MULTILINE)


class ReaderPatience(Patience):
    """The patience of a read for one process, whose number is 0 if it is not known here.

    Of a file that may be mapped only SIGKILL counts, and what is as final: an error kills the process that maps it.
    """

    def __init__(self, process: int, limit_s: float = inf, *, may_be_mapped: bool = False) -> None:
        super().__init__(limit_s)
        self._process = process
        self._signals = _KILLING if may_be_mapped else ENDING
        self._next_look_s = monotonic() + LOOK_S

    def check(self) -> None:
        """Raise EINTR if the process got a signal to end, and has yet to handle it."""
        now_s = monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if is_told_to_end(self._process, self._signals):
                raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))


def process_of(thread: int) -> int:
    """Return the number of a thread's process, which does not end with the thread; 0 if it is gone."""
    found = _PROCESS.search(_status(thread))
    return 0 if found is None else int(found[1])


def is_told_to_end(process: int, signals: Iterable[int] = ENDING) -> bool:
    """True if one of these signals waits for a thread of the process that neither blocks nor ignores it."""
    bits = sum(1 << (number - 1) for number in signals)
    try:
        threads = [int(thread.name) for thread in islice(Path(f"/proc/{process}/task").iterdir(), _THREADS_MAX)]
    except OSError:
        return False
    return any(_waiting(thread) & bits for thread in threads)


def _waiting(thread: int) -> int:
    masks = {name: int(mask, 16) for name, mask in _MASK.findall(_status(thread))}
    pending = masks.get(b"SigPnd", 0) | masks.get(b"ShdPnd", 0)
    return pending & ~masks.get(b"SigBlk", 0) & ~masks.get(b"SigIgn", 0)


def _status(thread: int) -> bytes:
    try:
        return Path(f"/proc/{thread}/status").read_bytes()
    except OSError:
        return b""
