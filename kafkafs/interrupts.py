"""SIGINT while a program begins or ends: nothing catches KeyboardInterrupt then, and Python would print a traceback."""

from __future__ import annotations

import signal


def end_quietly_by_interrupts() -> None:
    """Give SIGINT its default effect: the process ends by it, for which shells have 130, and prints nothing.

    A process that ignores SIGINT goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Make SIGINT raise KeyboardInterrupt again, for commands that catch it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
