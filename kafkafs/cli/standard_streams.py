"""Standard input, output and error, the same for every command however its process was started.

cron, daemons and scripts may start programs with descriptors 0 to 2 closed. The next file that is opened would get such
a number, and output would go into it; so the numbers are taken before anything else is opened. Reading a closed
standard input and writing to a closed standard output are errors, as with GNU's tools; messages to a standard error
that cannot be written are lost, and change nothing.

Text is UTF-8 in every locale, as JSON has to be, and names that are not UTF-8 are printed as the bytes that they are.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkafs.plain_text import lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from _typeshed import ReadableBuffer

_INPUT, _OUTPUT, _ERROR = range(3)
_BUFFER_BYTES: Final = 64 * 1024
_UNENCODABLE: Final = "kafkafs.bytes_or_escapes"


class StandardOutput(io.RawIOBase):
    """Descriptor 1, which `was_closed` when the process began. The first error is remembered, and is the last.

    It is raised by the write that meets it and by all later ones, except while `is_failing_silently`.
    """

    def __init__(self, *, was_closed: bool) -> None:
        super().__init__()
        self.was_closed = was_closed
        self.error: OSError | None = None
        self.is_failing_silently = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return _OUTPUT

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(_OUTPUT)

    def write(self, data: ReadableBuffer) -> int:
        """Write some of the bytes, and return their number."""
        if self.error is None:
            try:
                return os.write(_OUTPUT, data)
            except OSError as error:
                error.filename = "standard output"
                self.error = error
        if not self.is_failing_silently:
            raise self.error
        return len(memoryview(data).cast("B"))

    @contextmanager
    def failing_silently(self) -> Iterator[None]:
        """Let no write raise in the block; `error` has what went wrong."""
        before, self.is_failing_silently = self.is_failing_silently, True
        try:
            yield
        finally:
            self.is_failing_silently = before


class _StandardError(io.RawIOBase):
    """Descriptor 2. What cannot be written is lost."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _ERROR

    def isatty(self) -> bool:
        return os.isatty(_ERROR)

    def write(self, data: ReadableBuffer) -> int:
        try:
            return os.write(_ERROR, data)
        except OSError:
            return len(memoryview(data).cast("B"))


class TerminalText(io.TextIOWrapper):
    """Text that goes to a terminal, which gets no control character that came with it."""

    def write(self, text: str) -> int:
        """Write text."""
        super().write(lines(text))
        return len(text)

    def write_controls(self, controls: str) -> None:
        """Write what is meant for the terminal itself."""
        super().write(controls)


def open_standard_streams() -> None:
    """Fill closed descriptors among 0 to 2, and make `sys.stdin`, `sys.stdout` and `sys.stderr` use them.

    A program calls this once, before anything else; not under a test runner, which has streams of its own.
    """
    _fill(_INPUT, os.O_WRONLY)  # cannot be read
    was_closed = _fill(_OUTPUT, os.O_RDONLY)  # cannot be written
    _fill(_ERROR, os.O_WRONLY)  # takes everything, and keeps nothing
    codecs.register_error(_UNENCODABLE, _bytes_or_escapes)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(_INPUT, closefd=False)), encoding="utf-8")
    sys.stdout = _text(StandardOutput(was_closed=was_closed))
    sys.stderr = _text(_StandardError(), is_immediate=True)


def standard_output() -> StandardOutput | None:
    """Return descriptor 1 if `sys.stdout` writes to it; None under a test's runner."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, StandardOutput) else None


def is_of_output(error: Exception) -> bool:
    """Return True if this is an error of descriptor 1, and not of a file that is read."""
    output = standard_output()
    return output is not None and output.error is error


def wait_for_no_reader(timeout_s: float) -> None:
    """Wait so long; raises `BrokenPipeError` as soon as nothing reads the standard output any more, if it is a pipe."""
    polling = select.poll()
    if standard_output() is not None:
        polling.register(_OUTPUT, 0)  # for what is told unasked: that the other end is closed
    if polling.poll(timeout_s * 1000):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE), "standard output")


def abandon_output() -> None:
    """Drop buffered output and everything that is printed from now on."""
    output = standard_output()
    if output is not None:
        output.is_failing_silently = True


def _fill(number: int, flags: int) -> bool:
    """Open the descriptor if it is closed, and return whether it was."""
    try:
        os.fstat(number)
    except OSError:
        descriptor = os.open(os.devnull, flags)
        assert descriptor == number  # the lowest that is free
        os.set_inheritable(number, True)  # children need it as much
        return True
    return False


def _text(raw: io.RawIOBase, *, is_immediate: bool = False) -> TextIO:
    buffer = io.BufferedWriter(raw, _BUFFER_BYTES)
    line_buffering = is_immediate or raw.isatty()
    kind = TerminalText if raw.isatty() else io.TextIOWrapper
    return kind(buffer, encoding="utf-8", errors=_UNENCODABLE, line_buffering=line_buffering)


def _bytes_or_escapes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the bytes of an undecodable name; an escape for any other surrogate."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)
