"""The last word of a process that has served a mount, to those who unmounted it: how its store was closed.

They are connected before they unmount, and hear once the store is closed; there is no thread, and no file. Without a
word, as from a process that was killed, they know nothing. What is said is for anybody who could see the mount.
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
    """The side that serves. `word` is what is said at the end; nothing where all went well."""

    def __init__(self) -> None:
        self.word = ""


@contextmanager
def parting() -> Iterator[Parting]:
    """Have others connect meanwhile; when this is left they are told the word."""
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
        """What was said, once the process has ended; nothing if it had nothing to say."""
        with suppress(OSError):
            if self._is_connected:
                return self._socket.recv(_WORD_BYTES_MAX).decode(errors="replace").strip()
        return ""


def _address(pid: int) -> bytes:
    return b"\0kafkafs.%d" % pid  # abstract: it goes with the process
