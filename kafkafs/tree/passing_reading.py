"""Open files whose bytes are made as they are read, and are not kept: the first ones come before the last are made."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.content.descriptor_memory import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEPT_BYTES: Final = 1024 * 1024
"""So many bytes before the place of the last read are kept, as the kernel's reads may come in another order."""


class PassingReading:
    """An open file with the bytes of the pieces that `make` yields, which are the same each time.

    They are made once for a reader that goes forward, and from the beginning for one that goes back by much, or if
    others kept too much in between. Any thread may read.
    """

    def __init__(self, make: Callable[[], Iterator[bytes]]) -> None:
        self._make: Callable[[], Iterator[bytes]] | None = make
        self._pieces = make()
        self._window = bytearray()
        self._start = 0  # the position of the window
        self._size_bytes: int | None = None
        self._reading = Lock()  # held while pieces are made

    def size_bytes(self) -> int | None:
        """Return how many there are, None before the last one is made."""
        return self._size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes from the position, once they are made; fewer than asked for only at the end."""
        with self._reading:
            try:
                return self._read(position, size_bytes)
            finally:
                KEPT.keep(self, len(self._window))

    def _read(self, position: int, size_bytes: int) -> bytes:
        if position < self._start and self._make is not None:
            self._begin(self._make())
        while self._start + len(self._window) < position + size_bytes:
            piece = next(self._pieces, None)
            if piece is None:
                self._size_bytes = self._start + len(self._window)
                break
            self._window += piece
            passed = min(position - self._start - _KEPT_BYTES, len(self._window))
            if passed > 0:
                del self._window[:passed]
                self._start += passed
        begin = max(position - self._start, 0)
        return bytes(self._window[begin : begin + size_bytes])

    def read_soon(self, position: int, size_bytes: int) -> bytes | None:
        """Return the same if it is in memory, and otherwise None."""
        end = min(position + size_bytes, position + size_bytes if self._size_bytes is None else self._size_bytes)
        is_here = self._start <= position and end <= self._start + len(self._window)
        return self.read(position, size_bytes) if is_here and not self._reading.locked() else None

    def close(self) -> None:
        """Release what the pieces are made from."""
        with self._reading:
            self._make = None
            self._begin(iter(()))
            KEPT.keep(self, 0)

    def drop_kept(self) -> None:
        """Drop the window, unless it is in use; the pieces are made again when they are read."""
        if self._reading.acquire(blocking=False):
            try:
                if self._make is not None:
                    self._begin(self._make())
                KEPT.keep(self, 0)
            finally:
                self._reading.release()

    def _begin(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._start, self._window = pieces, 0, bytearray()
