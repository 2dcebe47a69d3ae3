"""Open files whose bytes can be made again: they give their memory to work that needs it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from storage.budget import MEMORY
from storage.record import LeasedBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class RemadeReading:
    """An open file with the bytes that `make` returns, which are the same each time. Any thread may read."""

    def __init__(self, make: Callable[[], bytes | LeasedBuffer], data: bytes | LeasedBuffer) -> None:
        self._make = make
        self._size_bytes = len(data)
        self._data: bytes | LeasedBuffer | None = None
        self._making = Lock()
        self._keeping = Lock()
        self._account = MEMORY.account(self._drop)
        self._keep(data)

    def size_bytes(self) -> int:
        """Return how many there are."""
        return self._size_bytes

    def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes from the position; fewer than asked for only at the end."""
        if position >= self._size_bytes:
            return b""
        data = self._data
        if data is None:
            with self._making:
                data = self._data
                if data is None:
                    data = self._make()
                    self._keep(data)
        return memoryview(data)[position : position + size_bytes]

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if they are made."""
        data = self._data
        return None if data is None else memoryview(data)[position : position + size_bytes]

    def close(self) -> None:
        """Release the bytes."""
        self._drop()

    def _keep(self, data: bytes | LeasedBuffer) -> None:
        with self._keeping:
            if self._data is None and self._account.keep(_unleased_bytes(data)):
                self._data = data

    def _drop(self, _: int = 0) -> None:
        with self._keeping:
            data, self._data = self._data, None
            if data is not None:
                self._account.give(_unleased_bytes(data))


def _unleased_bytes(data: bytes | LeasedBuffer) -> int:
    return 0 if isinstance(data, LeasedBuffer) else len(data)
