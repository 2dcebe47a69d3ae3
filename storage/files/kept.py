"""Directories that a user named, kept open so that every use reaches the one that was opened first."""

from __future__ import annotations

import os
from threading import Lock
from typing import Final

from storage.files.opened import identity_of

PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_LOCK: Final = Lock()
"""Held while a descriptor is duplicated, opened or closed: one for all, as there may be very many directories."""


class Kept:
    """The descriptor of a directory that is kept open, as often as it is not let go yet. Any thread may use it.

    `identity` is that of the directory while it is kept open, and None while it is not.
    """

    __slots__ = ("_descriptor", "_times", "identity")

    def __init__(self) -> None:
        self.identity: tuple[int, int] | None = None
        self._descriptor = -1
        self._times = 0

    def keep(self, path: str) -> None:
        """Open the directory of a path, unless it is open already."""
        with _LOCK:
            if self._times == 0:
                self._descriptor = os.open(path, PLACE)
                self.identity = identity_of(os.fstat(self._descriptor))
            self._times += 1

    def let_go(self) -> None:
        """Close it once this was called as often as `keep`."""
        with _LOCK:
            self._times -= 1
            if self._times == 0:
                self.identity = None
                os.close(self._descriptor)
                self._descriptor = -1

    def duplicate(self) -> int:
        """Return another descriptor of it, which the caller closes; -1 if it is not kept open."""
        with _LOCK:
            return os.dup(self._descriptor) if self._descriptor >= 0 else -1
