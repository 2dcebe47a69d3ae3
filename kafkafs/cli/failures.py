"""How a command ends when it does not succeed: one sentence on standard error and an exit code, never a traceback.

Usage errors are click's and pass through. Whoever looks for a bug sets KAFKAFS_TRACEBACK and sees where it came from.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


@contextmanager
def reported(*, exit_code: int = EXIT_FAILED) -> Iterator[None]:
    """Turn whatever goes wrong inside into a message and SystemExit; click's own exceptions pass through.

    What is no interruption and no broken pipe ends with `exit_code`, which a command chooses that has a use for 1.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except BrokenPipeError:
        _abandon_output()
        raise SystemExit(EXIT_BROKEN_PIPE) from None
    except KeyboardInterrupt:
        _say("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 -- this is where exceptions end
        if os.environ.get("KAFKAFS_TRACEBACK"):
            traceback.print_exception(error)
        _say(sentence(error))
        raise SystemExit(exit_code) from None


def sentence(error: Exception) -> str:
    """What went wrong, in one sentence."""
    from kafkafs.mount.errors import MountError
    from kafkafs.spark.errors import DataLossError, JobError, OptionError
    from kafkafs.tree.errors import TreeError
    from storage.errors import StorageError

    if isinstance(error, StorageError | TreeError | MountError | OptionError | DataLossError | JobError):
        return str(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason
    return (
        f"this is a bug in kafkafs: {type(error).__name__}: {error}; "
        "run it again with KAFKAFS_TRACEBACK=1 to see where, and report it"
    )


def _say(sentence: str) -> None:
    """Write to standard error after everything that was printed before, where anybody can still read it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _abandon_output()
    with suppress(OSError):
        click.echo(f"kafkafs: {sentence}", err=True)


def _abandon_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
