"""The progress of long work, which a command shows on a terminal."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, ClassVar, Final, Self

from kafkafs.cli.standard_streams import TerminalText
from kafkafs.plain_text import one_line
from kafkafs.quantities import size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

_PATIENCE_S: Final = 2.0  # shorter work says nothing
_INTERVAL_S: Final = 0.2
_BEAT_S: Final = 1.0
_ERASE_LINE: Final = "\r\x1b[K"


class Progress:
    """The progress of long work in one line, rewritten in place and erased at the end; nothing without a stream."""

    _is_beating: ClassVar[bool] = False  # in a block of `beating`, also another's

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._begun = clock()
        self._due = self._begun + _PATIENCE_S
        self._is_visible = False
        self._lock = Lock()
        self._saying: Callable[[], str] | None = None  # what is being done, for `beating`
        self._rests_until = 0.0

    @classmethod
    def on_terminal(cls, *, is_erased_for_results: bool = False) -> Self:
        """Return progress that is shown on standard error if that is a terminal.

        It is not shown if the results go to a terminal too, unless it is erased before each of them.
        """
        is_free = is_erased_for_results or not sys.stdout.isatty()
        return cls(sys.stderr if sys.stderr.isatty() and is_free else None)

    @contextmanager
    def beating(self, what: str = "") -> Iterator[None]:
        """While a block runs, say again and again what is being done, and for how long: a step of it may take long.

        That is `what` at first, and then what was said last. A block within another's is a step of that one.
        """
        if self._stream is None or Progress._is_beating:
            yield
            return
        if what:
            self._saying = lambda: what
        Progress._is_beating = True
        try:
            with _beat_in_thread(self._beat), _beat_by_signals(self._beat):
                yield
        finally:
            Progress._is_beating = False
            self.erase()

    def _beat(self) -> None:
        """Say again what is being done, unless something is being said."""
        if self._lock.acquire(blocking=False):  # a signal's handler must not wait for what it interrupted
            try:
                if self._saying is not None and self.is_due and self._clock() >= self._rests_until:
                    self._write(f"{self._saying()}, {span_text(self._clock() - self._begun)} so far")
            finally:
                self._lock.release()

    def show(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Say how much of it is done, how fast, and how long the rest takes at that rate, if a message is due."""
        self._say(partial(self._share, what, done_bytes, total_bytes))

    def _share(self, what: str, done_bytes: int, total_bytes: int) -> str:
        text = f"{what}: {100 * done_bytes // max(total_bytes, 1)} % of {size_text(total_bytes)}"
        if done_bytes:
            rate = done_bytes / (self._clock() - self._begun)
            left = span_text((total_bytes - done_bytes) / rate)
            text = f"{text}, {size_text(rate)}/s, {left} left"
        return text

    def show_count(self, what: str, number: int, total: int) -> None:
        """Say which of all is being done, if a message is due."""
        self._say(lambda: f"{what}: {number} of {total}")

    def show_number(self, what: str, number: int) -> None:
        """Say how many of it are done, where their count is unknown, if a message is due."""
        self._say(lambda: f"{what}: {number}")

    def _say(self, saying: Callable[[], str]) -> None:
        if self._stream is None:
            return
        with self._lock:
            self._saying = saying
            if self.is_due:
                self._write(saying())

    @property
    def is_due(self) -> bool:
        """Return True if a message is due, for callers whose message is costly."""
        return self._stream is not None and self._clock() >= self._due

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._due = self._clock() + _INTERVAL_S
        self._is_visible = True
        self._erase_line()
        self._stream.write(one_line(text))
        self._stream.flush()

    def erase(self) -> None:
        """Erase the line, for a result or at the end. While results come nothing is said in between by `beating`."""
        if self._stream is None:
            return
        with self._lock:
            if self._is_visible:
                self._erase_line()
                self._stream.flush()
                self._is_visible = False
            self._rests_until = self._clock() + _PATIENCE_S

    def _erase_line(self) -> None:
        assert self._stream is not None
        write = self._stream.write_controls if isinstance(self._stream, TerminalText) else self._stream.write
        write(_ERASE_LINE)


@contextmanager
def _beat_in_thread(beat: Callable[[], None]) -> Iterator[None]:
    """Call `beat` every second in a block. The thread has no turn while others take theirs in quick succession."""
    stopped = Event()

    def run() -> None:
        while not stopped.wait(_BEAT_S):
            beat()

    heart = Thread(target=run, daemon=True)
    heart.start()
    try:
        yield
    finally:
        stopped.set()
        heart.join()


@contextmanager
def _beat_by_signals(beat: Callable[[], None]) -> Iterator[None]:
    """Call `beat` every second in a block of the main thread, as soon as that is between two steps of Python."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        with suppress(RuntimeError):  # the thread is writing to the same stream
            beat()

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, _BEAT_S, _BEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
