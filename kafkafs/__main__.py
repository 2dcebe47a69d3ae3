"""`python -m kafkafs`, and where the program begins: the command line is imported when an interrupt is provided for."""

from __future__ import annotations

import os
import sys

from kafkafs.interrupts import end_quietly_by_interrupts


def main() -> None:
    """Run the command line."""
    end_quietly_by_interrupts()
    if sys.getfilesystemencoding() != "utf-8":
        _begin_again_in_utf8()
    from kafkafs.cli import main as command_line

    command_line(prog_name="kafkafs")


def _begin_again_in_utf8() -> None:
    """Begin this process again where the locale is C and Python was told to keep to it.

    Paths and arguments are text in messages, and Python decodes them before any of our code runs.
    """
    words = [sys.orig_argv[0], "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, words, {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606 -- our own command


if __name__ == "__main__":
    main()
