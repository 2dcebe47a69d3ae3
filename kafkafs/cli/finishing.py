"""Changes that finish once they have begun: neither failing output nor a signal leaves one half done.

    with finishing("everything was repaired") as change:
        for partition in partitions:
            if change.is_interrupted:
                break
            click.echo(repair(partition))

If printing in the block fails, the work goes on, and the block ends with `UnprintedError`, which has the exit code of
a closed pipe or of a failure. SIGINT, SIGTERM and SIGHUP wait: the block checks for them between two units of work, and
ends with KeyboardInterrupt or `Terminated`. A second signal interrupts at once, for users who would rather have the
store recovered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from kafkafs.cli.failures import Terminated, UnprintedError
from kafkafs.cli.output import print_line
from kafkafs.cli.standard_streams import standard_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PUT_OFF: Final = b"kafkafs: interrupted: what was begun is finished first; interrupt again to stop at once\n"


class Change:
    """The signals that reach a block of `finishing`: once `is_interrupted`, it begins nothing more."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self._number: int = signal.SIGINT
        self._is_waiting = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal interrupt the block at once: it waits, as for input, and has nothing half done."""
        self._is_waiting = True
        try:
            if self.is_interrupted:
                raise self.interruption()
            yield
        finally:
            self._is_waiting = False

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        if not self.is_interrupted:
            self._number = number
        if self._is_waiting or self.is_interrupted:
            raise self.interruption()
        self.is_interrupted = True
        with suppress(OSError):
            os.write(2, _PUT_OFF)  # past the stream, which may be in the middle of a write

    def interruption(self) -> KeyboardInterrupt:
        """Return the exception that ends an interrupted block: the first signal decides it."""
        return KeyboardInterrupt() if self._number == signal.SIGINT else Terminated(signal.Signals(self._number))


@contextmanager
def finishing(done: str = "everything was done", *, is_changing: bool = True) -> Iterator[Change]:
    """Finish the changes of the block; the error about output that could not be written begins with `done`.

    An exception in the block takes precedence over that error. A block that changes nothing ends like any other.
    """
    change = Change()
    if not is_changing:
        yield change
        return
    output = standard_output()
    with _handling_interrupts(change), nullcontext() if output is None else output.failing_silently():
        yield change
        sys.stdout.flush()
    if output is not None and output.error is not None:
        output.is_failing_silently = True
        raise UnprintedError(done, output.error)
    if change.is_interrupted:
        raise change.interruption()


def print_afterwards(text: str, done: str) -> None:
    """Print text after a command has done its work.

    A standard output that was closed from the beginning, as daemons have it, is no error here.
    """
    output = standard_output()
    if output is None or not output.was_closed:
        with finishing(done):
            print_line(text)


@contextmanager
def _handling_interrupts(change: Change) -> Iterator[None]:
    """Give SIGINT, SIGTERM and SIGHUP to the change, except ignored ones; off the main thread, none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in taken:
        signal.signal(number, change.interrupt)
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
