"""The end of a command: an exit code that means the same for every command, and a sentence if it fails.

There is never a traceback, unless KAFKAFS_TRACEBACK is set. Usage errors are click's.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import traceback
from contextlib import contextmanager
from io import StringIO
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, NoReturn

import click

from kafkafs.cli.standard_streams import abandon_output, open_standard_streams
from kafkafs.interrupts import end_quietly_by_interrupts, raise_interrupts
from kafkafs.plain_text import PlainFormatter, lines, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXIT_DONE = 0  # done, planned, sound, the same
EXIT_FOUND = 1  # found or not found: damage by verify, a difference, a path or topic that is not there
EXIT_USAGE = 2  # wrong usage, or no store
EXIT_FAILED = 3  # I/O, damage met while reading, refused, output that cannot be written, a bug
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE; 129 and 143 are those of SIGHUP and SIGTERM, by which the process then ends


class UnprintedError(Exception):
    """A command has made its changes, but could not print what it had to say about them."""

    def __init__(self, done: str, cause: OSError) -> None:
        super().__init__(f"{done}, but {_said_by_the_system(cause)}")
        self.exit_code = EXIT_BROKEN_PIPE if isinstance(cause, BrokenPipeError) else EXIT_FAILED


class PartlyDoneError(Exception):
    """A command has failed half-way, and says how far it came."""

    def __init__(self, cause: Exception, done: str) -> None:
        super().__init__(f"{sentence(cause)}; {done}")
        self.exit_code = exit_code(cause)


class Terminated(KeyboardInterrupt):
    """A signal other than SIGINT has interrupted a command, which cleans up and then ends by it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


class _EndBySignal(SystemExit):
    """The end of a program by a signal, whose exit code in shells is 128 plus its number."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(128 + number)
        self.number = number


def run_program(run: Callable[[], object]) -> NoReturn:
    """Run a command of click's, not `standalone`, as a program: open the standard streams, and exit with its code."""
    open_standard_streams()
    _print_warnings()
    _end_by_lost_interrupts()
    code, number = _code_of(run)
    flushed, _ = _code_of(sys.stdout.flush)
    end_quietly_by_interrupts()
    if number is not None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    raise SystemExit(flushed or code)


def _print_warnings() -> None:
    """Print logged warnings as kafkafs' own messages, unless logging is set up, as a mount does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(PlainFormatter("kafkafs: %(message)s"))
    logging.lastResort = handler


def _end_by_lost_interrupts() -> None:
    """End the process at once by an interrupt that Python would only print, as in a finalizer: no caller gets it."""
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt and current_thread() is main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        before(unraisable)

    sys.unraisablehook = hook


def _code_of(run: Callable[[], object]) -> tuple[int, signal.Signals | None]:
    """Return the exit code of `run`, and the signal that ended it."""
    try:
        with reported():
            raise_interrupts()
            code = run()
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)  # with what was given
        click.echo(lines(shown.getvalue()), err=True, nl=False)
        return error.exit_code, None
    except _EndBySignal as end:
        return EXIT_FAILED, end.number
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED, None
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_DONE, None
    return code if isinstance(code, int) else EXIT_DONE, None


@contextmanager
def ended_quietly_by_interrupts() -> Iterator[None]:
    """Let SIGINT end the process at once in a block that imports, where Python may lose a KeyboardInterrupt.

    Python hides it under another exception where a class is being made, and only prints it in the locks of modules. Off
    the main thread, which alone gets signals, nothing changes.
    """
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    end_quietly_by_interrupts()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def reported() -> Iterator[None]:
    """Turn each exception in the block into a message and SystemExit; click's own exceptions pass through."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except BrokenPipeError:
        abandon_output()
        raise SystemExit(EXIT_BROKEN_PIPE) from None
    except Terminated as end:
        _say_last(f"ended by {end.number.name}")
        raise _EndBySignal(end.number) from None
    except KeyboardInterrupt:
        _say_last("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 -- this is where exceptions end
        if os.environ.get("KAFKAFS_TRACEBACK"):
            traceback.print_exception(error)
        _say_last(sentence(error))
        raise SystemExit(exit_code(error)) from None


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that ends with this error."""
    from kafkafs.mount.errors import MountError, NotMountedError
    from kafkafs.spark.errors import JobError, MissingGroupError, MissingTopicError, OptionError
    from kafkafs.tree.errors import NotThereError
    from storage.errors import NotAStoreError, UnknownPartitionError

    if isinstance(error, UnprintedError | PartlyDoneError):
        return error.exit_code
    if isinstance(error, MountError) and error.exit_code is not None:
        return error.exit_code
    not_found = (NotThereError, UnknownPartitionError, NotMountedError, MissingTopicError, MissingGroupError)
    wrong = (NotAStoreError, OptionError)
    kinds = [each.__name__ for each in type(error).__mro__]
    if isinstance(error, JobError) and error.kind is not None:
        kinds = [error.kind]
    if any(each.__name__ in kinds for each in not_found):
        return EXIT_FOUND
    return EXIT_USAGE if any(each.__name__ in kinds for each in wrong) else EXIT_FAILED


def sentence(error: Exception) -> str:
    """Return the error in one sentence."""
    if is_bug(error):
        return (
            f"this is a bug in kafkafs: {type(error).__name__}: {error}; "
            "run it again with KAFKAFS_TRACEBACK=1 to see where, and report it"
        )
    return _said_by_the_system(error) if isinstance(error, OSError) else str(error)


def is_bug(error: Exception) -> bool:
    """Return True for an unexpected error, which is a bug in kafkafs."""
    from kafkafs.mount.errors import MountError
    from kafkafs.spark.errors import DataLossError, JobError, OptionError, SeenLessError
    from kafkafs.tree.errors import TreeError
    from storage.errors import StorageError

    known = (
        StorageError
        | TreeError
        | MountError
        | OptionError
        | DataLossError
        | SeenLessError
        | JobError
        | UnprintedError
        | PartlyDoneError
        | OSError
    )
    return not isinstance(error, known)


def _said_by_the_system(error: OSError) -> str:
    from storage.errors import in_words

    return in_words(error) + ("; remount the file system writable" if error.errno == errno.EROFS else "")


def say(sentence: str) -> None:
    """Write to standard error, after everything that was printed before."""
    sys.stdout.flush()
    click.echo(f"kafkafs: {one_line(sentence)}", err=True)


def _say_last(sentence: str) -> None:
    try:
        say(sentence)
    except OSError:
        abandon_output()
        say(sentence)
