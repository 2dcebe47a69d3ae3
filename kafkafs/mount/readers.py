"""Programs that wait for a read: one that gets a signal meanwhile has its answer soon, EINTR.

A program that waits for a mount handles no signal, not even SIGKILL, until the mount answers. pyfuse3 does not
pass on that a signal has come, so long reads look for it themselves.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from kafkafs.content.patience import Patience

LOOK_S: Final = 0.25
"""How often a read that takes long looks for a signal."""

_ENDING: Final = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_BITS: Final = sum(1 << (number - 1) for number in _ENDING)
_MASK: Final = re.compile(rb"^(SigPnd|ShdPnd|SigBlk|SigIgn):\s*([0-9a-f]+)$", re.MULTILINE)


class ReaderPatience(Patience):
    """The patience of a read for one process, whose number is 0 if it is not known here."""

    def __init__(self, process: int, limit_s: float = inf) -> None:
        super().__init__(limit_s)
        self._process = process
        self._next_look_s = monotonic() + LOOK_S

    def check(self) -> None:
        """Raise EINTR if the process got a signal to end, and has yet to handle it."""
        now_s = monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if is_told_to_end(self._process):
                raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))


def is_told_to_end(process: int) -> bool:
    """True if a signal to end waits for the process, which neither blocks nor ignores it."""
    try:
        status = Path(f"/proc/{process}/status").read_bytes()
    except OSError:
        return False
    masks = {name: int(mask, 16) for name, mask in _MASK.findall(status)}
    pending = masks.get(b"SigPnd", 0) | masks.get(b"ShdPnd", 0)
    return bool(pending & ~masks.get(b"SigBlk", 0) & ~masks.get(b"SigIgn", 0) & _BITS)
