"""The last word of a serving process to those who unmounted: how its store was closed.

They connect before they unmount, and get the word once the store is closed, without a thread or a file. A killed
process sends no word. Every user who could see the mount may read it.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_BACKLOG: Final = 16
_WORD_BYTES_MAX: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("iii")  # pid, uid, gid


class Parting:
    """The serving side. `word` is sent at the end; it is empty if nothing failed."""

    def __init__(self) -> None:
        self.word = ""


@contextmanager
def parting() -> Iterator[Parting]:
    """Accept connections in the block, and send the word at its end."""
    said = Parting()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as listener:
        with suppress(OSError):
            listener.bind(_address(os.getpid()))
            listener.listen(_BACKLOG)
        try:
            yield said
        finally:
            with suppress(OSError):  # the serving process is gone, or could not connect
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.send(said.word.encode(errors="replace")[:_WORD_BYTES_MAX] or b"\n")


class Awaited:
    """The side that unmounts: connected to a process from before it ends."""

    def __init__(self, pid: int | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._is_connected = False
        if pid is not None:
            with suppress(OSError):
                self._socket.connect(_address(pid))
                credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                self._is_connected = _CREDENTIALS.unpack(credentials)[0] == pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def word(self) -> str:
        """Return the word, once the process has ended; empty if there was none."""
        with suppress(OSError):
            if self._is_connected:
                return self._socket.recv(_WORD_BYTES_MAX).decode(errors="replace").strip()
        return ""


def _address(pid: int) -> bytes:
    return b"\0kafkafs.%d" % pid  # abstract: it goes with the process
