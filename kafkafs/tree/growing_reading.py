"""Open files whose bytes are made as they are read: the first ones come before the last ones are made."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class GrowingReading:
    """An open file with the bytes that the pieces yield, each of them once. Any thread may read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces: Iterator[bytes] | None = pieces  # None once all were made
        self._data = bytearray()
        self._growing = Lock()  # held while pieces are made

    def size_bytes(self) -> int | None:
        """Return how many there are, None before the last one is made."""
        return len(self._data) if self._pieces is None else None

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes from the position, once they are made; fewer than asked for only at the end."""
        with self._growing:
            while self._pieces is not None and len(self._data) < position + size_bytes:
                piece = next(self._pieces, None)
                if piece is None:
                    self._pieces = None
                else:
                    self._data += piece
            return bytes(self._data[position : position + size_bytes])

    def read_soon(self, position: int, size_bytes: int) -> bytes | None:
        """Return the same if they are made, and otherwise None."""
        is_made = self._pieces is None or len(self._data) >= position + size_bytes
        return self.read(position, size_bytes) if is_made and not self._growing.locked() else None

    def close(self) -> None:
        """Do nothing: nothing is held."""
