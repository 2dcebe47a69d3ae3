"""The log of a mount: on standard error, and its last lines in the mount itself."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.plain_text import PlainFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES_MAX: Final = 1000
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750
_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"

log: Final = logging.getLogger("kafkafs.mount")


class RecentLines(logging.Handler):
    """The last lines of the log."""

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines_max)
        self._guard = Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        line = self.format(record)
        with self._guard:
            self._lines.append(line)

    def text(self) -> bytes:
        """The lines, oldest first."""
        with self._guard:
            lines = list(self._lines)
        return "".join(f"{line}\n" for line in lines).encode(errors="replace")


class FailedLooks:
    """Logs looks of one kind that fail, which end no mount: the first as an error, and later ones to debug."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._level = logging.ERROR

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Log an error of the block. The caller goes on."""
        try:
            yield
        except Exception:
            message = "a look for %s ended with an error: this is a bug in kafkafs"
            log.log(self._level, message, self._what, exc_info=True)
            self._level = logging.DEBUG


class StandardErrorFile(logging.Handler):
    """Standard error as a log file: beyond its size limit it is rotated, and one earlier file is kept."""

    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX) -> None:
        super().__init__()
        self._path = path
        self._bytes_max = bytes_max

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. A full disk or a removed file is ignored."""
        with suppress(OSError):
            os.write(2, f"{self.format(record)}\n".encode(errors="replace"))
            if os.fstat(2).st_size > self._bytes_max:
                self._put_aside()

    def _put_aside(self) -> None:
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = opened(self._path)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def opened(path: Path) -> int:
    """Return a descriptor that adds to a log file, which is made if it is missing. Others may not read it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with suppress(OSError):  # another user's file
        os.fchmod(descriptor, os.fstat(descriptor).st_mode & FILE_MODE)
    return descriptor


def make_directory(path: Path) -> None:
    """Make the directory of log files, or close one that is there to others."""
    path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    with suppress(OSError):  # another user's directory
        path.chmod(path.stat().st_mode & DIRECTORY_MODE)


def start_logging(file: Path | None = None) -> RecentLines:
    """Log from INFO up to standard error, whose path is `file` if it is a file, and keep the last lines."""
    formatter = PlainFormatter(_FORMAT, _TIME_FORMAT)
    formatter.converter = time.gmtime
    recent = RecentLines()
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for handler in (recent, logging.StreamHandler() if file is None else StandardErrorFile(file)):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    return recent
