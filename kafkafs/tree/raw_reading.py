"""Real files that are open in a mount: any number, of which only some have a descriptor at a time."""

from __future__ import annotations

import errno
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.tree.errors import GoneError
from storage.files import HeldFile, LastUsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from storage.files import ReadableFile

RAW_FILES_MAX: Final = 256
"""The number of descriptors that a process has for them: a quarter of what it has by default."""

_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE})


class RawReading:
    """A real file, open. It can be read to its end even if it is unlinked.

    `reopen` opens the file, or raises ESTALE if another has its name. After `RAW_FILES_MAX` others were used, the file
    is closed, and opened again for the next read; one that was unlinked meanwhile is gone.
    """

    def __init__(self, name: object, reopen: Callable[[], ReadableFile]) -> None:
        self._name = name
        self._reopen = reopen
        self._opening = Lock()
        self._is_closed = False
        self._held: HeldFile | None = HeldFile(reopen())
        self._size_bytes = self._held.file.size_bytes()
        _with_descriptors.add(self)

    def size_bytes(self) -> int:
        """Return the size of the file; once it is closed or gone, the last known one."""
        with suppress(GoneError):
            held = self._used()  # for as long as this takes: another thread may close it
            self._size_bytes = held.file.size_bytes()
        return self._size_bytes

    def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes of the file; raises `GoneError`."""
        held = self._used()
        return held.file.read_at(position, size_bytes)

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if they are in memory."""
        held = self._held
        return None if held is None else held.file.read_cached_at(position, size_bytes)

    def close(self) -> None:
        """Close the file, once no other thread reads it."""
        with self._opening:
            self._is_closed = True
            self._held = None

    def rest(self) -> None:
        """Close the file, once no other thread reads it, until the next read."""
        self._held = None

    def _used(self) -> HeldFile:
        held = self._held
        if held is None:
            with self._opening:
                held = self._held
                if held is None:
                    held = self._held = self._opened_again()
        _with_descriptors.add(self)
        return held

    def _opened_again(self) -> HeldFile:
        reason = "it was closed"
        if not self._is_closed:
            try:
                return HeldFile(self._reopen())
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                reason = f"it was removed after {RAW_FILES_MAX} others had been read"
        raise GoneError(f"{self._name}: {reason}")


_with_descriptors: Final[LastUsed[RawReading]] = LastUsed(RAW_FILES_MAX, RawReading.rest)
