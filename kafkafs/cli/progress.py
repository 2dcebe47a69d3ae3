"""The progress of long work, on a terminal's standard error only."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_PATIENCE_S: Final = 2.0  # shorter work says nothing
_INTERVAL_S: Final = 0.2
_ERASE_LINE: Final = "\r\x1b[K"


class Progress:
    """One line that is rewritten in place and erased at the end; nothing without a stream."""

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._due = clock() + _PATIENCE_S
        self._is_visible = False

    @classmethod
    def on_terminal(cls, *, is_erased_for_results: bool = False) -> Self:
        """Shown on standard error if that is a terminal.

        Not if that is the one that the results go to as well, unless it is erased before each of them.
        """
        is_free = is_erased_for_results or not sys.stdout.isatty()
        return cls(sys.stderr if sys.stderr.isatty() and is_free else None)

    def show(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Say how much of it is done, if it is time to say something."""
        if self.is_due:
            self._write(f"{what}: {100 * done_bytes // max(total_bytes, 1)} % of {total_bytes / 1e6:.0f} MB")

    def show_count(self, what: str, number: int, total: int) -> None:
        """Say that this is the one so numbered of all, if it is time to say something."""
        if self.is_due:
            self._write(f"{what}: {number} of {total}")

    @property
    def is_due(self) -> bool:
        """True if a message is due, for callers whose message is costly."""
        return self._stream is not None and self._clock() >= self._due

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._due = self._clock() + _INTERVAL_S
        self._is_visible = True
        self._stream.write(f"{_ERASE_LINE}{text}")
        self._stream.flush()

    def erase(self) -> None:
        """Erase the line."""
        if self._stream is not None and self._is_visible:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
            self._is_visible = False
