"""Every operation on files that storage performs, as objects that callers are given.

Code that touches files takes a `Files` and asks it, so that a test can hand over one that fails. Errors are the
operating system's own `OSError`s, always with the path in them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class ReadableFile:
    """A file open for reading at any position. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def size_bytes(self) -> int:
        """How long the file is now."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """The bytes from `position`; fewer than asked for only where the file ends."""
        parts: list[bytes] = []
        while size_bytes > 0:
            try:
                part = os.pread(self._descriptor, size_bytes, position)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self.path) from None
            if not part:
                break
            parts.append(part)
            position += len(part)
            size_bytes -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give the descriptor back. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Files:
    """The operating system's files."""

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading; nothing about it changes, its access time aside."""
        return ReadableFile(path)
