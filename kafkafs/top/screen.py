"""The terminal: drawn by curses, read by one thread while another one looks at the store, and left as it was found.

It is restored when the block ends, by an error too; curses itself restores it while the process is stopped (Ctrl-Z),
and draws it again afterwards, as it does when the terminal has another size.
"""

from __future__ import annotations

import contextlib
import locale
import logging
import os
import select
import signal
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from kafkafs.top.detail import read_detail
from kafkafs.top.pages import Wish
from kafkafs.top.table import Style
from storage.errors import UnknownPartitionError

if TYPE_CHECKING:
    import curses
    from collections.abc import Mapping

    from kafkafs.top.detail import Detail
    from kafkafs.top.pages import Pages
    from kafkafs.top.reading import Reader, Reading
    from storage.clock import Clock

_KEYBOARD_MS: Final = 200  # for so long it waits for a key before it looks whether there is something new
_ESCAPE_MS: Final = 25
_PARTING_S: Final = 5.0
_NOTICED_S: Final = 0.5  # by then another interval counts, or the end of a pause
_REST: Final = 1.0  # how long the store is left alone after a look, in times of what the look took
_OWN_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_INPUT, _OUTPUT = 0, 1


def why_not_drawn() -> str | None:
    """Return why nothing can be drawn on this terminal; None if it can be."""
    try:
        import curses
    except ImportError:
        return "this Python has no curses"
    name = os.environ.get("TERM", "unknown")
    if name == "dumb":
        return "the terminal is a dumb one"
    try:
        curses.setupterm(name, _OUTPUT)
    except curses.error:
        return f"the terminal {name!r} is not known on this machine"
    return None if curses.tigetstr("cup") else f"nothing can be placed on the terminal {name!r}"


class Watch:
    """A thread that looks at the store for the pages: as often as they say, and at once when it is told to.

    It takes no longer for its looks than it rests between them.
    """

    def __init__(self, reader: Reader, clock: Clock, pages: Pages) -> None:
        self.latest: tuple[Reading, Detail | None] | None = None
        self.failure: Exception | None = None
        self._reader = reader
        self._clock = clock
        self._pages = pages
        self._is_stopped = False
        self._told = Event()
        self._thread = Thread(target=self._run, name="kafkafs-top", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._reader.progress = self._heed
        self._thread.start()

    def tell(self) -> None:
        """Look at once: at the partition whose page is shown, or at everything."""
        self._told.set()

    def stop(self) -> None:
        """End; a look under way ends within a partition, or is left to end by itself."""
        self._is_stopped = True
        self._told.set()
        self._thread.join(_PARTING_S)

    def _heed(self, done: int, total: int) -> bool:
        self._pages.take_progress(done, total)
        return self._is_stopped

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _OWN_SIGNALS)  # they are the terminal's, and so the main thread's
        try:
            while not self._is_stopped:
                begun_s = self._clock.elapsed_s()
                reading = self._reader.read()
                if reading is None:
                    return
                self.latest = (reading, self._detail(reading))
                ended_s = self._clock.elapsed_s()
                self._rest(reading, begun_s, ended_s + _REST * (ended_s - begun_s))
        except Exception as failure:  # noqa: BLE001 -- the main thread raises it
            self.failure = failure

    def _rest(self, reading: Reading, begun_s: float, rested_s: float) -> None:
        """Wait until the next look is due; meanwhile look at a partition whose page was opened."""
        pages, shown = self._pages, self._pages.detailed
        while not self._is_stopped:
            left_s = max(begun_s + pages.interval_s, rested_s) - self._clock.elapsed_s()
            if left_s <= 0 and not pages.is_paused:
                return
            is_told = self._told.wait(_NOTICED_S if pages.is_paused else min(left_s, _NOTICED_S))
            self._told.clear()
            if pages.detailed != shown:
                shown = pages.detailed
                self.latest = (reading, self._detail(reading))
            elif is_told and not pages.is_paused:
                return

    def _detail(self, reading: Reading) -> Detail | None:
        if self._pages.detailed is None:
            return None
        topic, partition = self._pages.detailed
        for each in reading.partitions:
            if (each.topic, each.partition) == (topic, partition):
                with contextlib.suppress(UnknownPartitionError):
                    return read_detail(self._reader.store, self._clock, topic, partition, each.lags)
        return None


class _Noting(logging.Handler):
    """Has the pages show what is logged, which would otherwise be written across them."""

    def __init__(self, pages: Pages) -> None:
        super().__init__(logging.WARNING)
        self._pages = pages

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message."""
        self._pages.note(record.getMessage())


def run_screen(reader: Reader, clock: Clock, pages: Pages) -> None:
    """Show the pages on the terminal of standard input and output until the user leaves; `why_not_drawn` is None.

    Raises what a look at the store raises, and `OSError` if the terminal is gone.
    """
    import curses

    locale.setlocale(locale.LC_ALL, "")
    watch, noting = Watch(reader, clock, pages), _Noting(pages)
    window = curses.initscr()
    logging.getLogger().addHandler(noting)
    try:
        styles = _prepare(window)
        watch.start()
        _converse(window, styles, watch, pages)
    finally:
        watch.stop()
        logging.getLogger().removeHandler(noting)
        window.keypad(False)
        curses.echo()
        curses.nocbreak()
        curses.endwin()


def _prepare(window: curses.window) -> Mapping[Style, int]:
    """Set the terminal up, and return the attributes of the styles; no colours where NO_COLOR is set."""
    import curses

    curses.noecho()
    curses.cbreak()
    window.keypad(True)
    window.timeout(_KEYBOARD_MS)
    curses.set_escdelay(_ESCAPE_MS)
    with contextlib.suppress(curses.error):
        curses.curs_set(0)
    bad = curses.A_BOLD
    if curses.has_colors() and not os.environ.get("NO_COLOR"):
        curses.start_color()
        curses.use_default_colors()
        curses.init_pair(1, curses.COLOR_RED, -1)
        bad = curses.color_pair(1)
    return {
        Style.PLAIN: curses.A_NORMAL,
        Style.TITLE: curses.A_BOLD,
        Style.HEADER: curses.A_BOLD | curses.A_UNDERLINE,
        Style.CHOSEN: curses.A_REVERSE,
        Style.BAD: bad,
        Style.QUIET: curses.A_DIM,
    }


def _converse(window: curses.window, styles: Mapping[Style, int], watch: Watch, pages: Pages) -> None:
    """Draw, and do what keys ask for."""
    import curses

    hanging_up = select.poll()
    hanging_up.register(_INPUT, 0)  # which tells of the end of the terminal alone
    latest = None
    while True:
        if watch.failure is not None:
            raise watch.failure
        if watch.latest is not None and watch.latest is not latest:
            latest = watch.latest
            pages.take(*latest)
        _follow_size()
        _draw(window, styles, pages)
        try:
            key = window.get_wch()
        except curses.error:
            if hanging_up.poll(0):
                raise OSError(f"the terminal is gone: descriptor {_INPUT} is closed") from None
            continue
        match pages.press(_named(key)):
            case Wish.LEAVE:
                return
            case Wish.READ:
                watch.tell()


def _follow_size() -> None:
    """Take on the terminal's size, if the signal that tells curses of another one had no effect."""
    import curses

    with contextlib.suppress(OSError):
        columns, lines = os.get_terminal_size(_OUTPUT)
        if lines and columns and curses.is_term_resized(lines, columns):
            curses.resizeterm(lines, columns)


def _draw(window: curses.window, styles: Mapping[Style, int], pages: Pages) -> None:
    import curses

    is_utf8 = locale.nl_langinfo(locale.CODESET).upper() == "UTF-8"
    height, width = window.getmaxyx()
    window.erase()
    for number, line in enumerate(pages.lines(width, height)):
        text = line.text.encode("utf-8" if is_utf8 else "ascii", "replace").decode()
        with contextlib.suppress(curses.error):  # the cursor cannot go on after the last place
            window.addstr(number, 0, text, styles[line.style])
    window.refresh()


def _named(key: int | str) -> str:
    """Return the name of a key as the pages have it; any other one's is its number."""
    import curses

    names = {
        "\n": "enter",
        "\r": "enter",
        "\x1b": "escape",
        "\x7f": "backspace",
        "\b": "backspace",
        curses.KEY_ENTER: "enter",
        curses.KEY_BACKSPACE: "backspace",
        curses.KEY_UP: "up",
        curses.KEY_DOWN: "down",
        curses.KEY_LEFT: "left",
        curses.KEY_RIGHT: "right",
        curses.KEY_PPAGE: "pageup",
        curses.KEY_NPAGE: "pagedown",
        curses.KEY_HOME: "home",
        curses.KEY_END: "end",
    }
    return names.get(key) or (key if isinstance(key, str) else f"key {key}")
