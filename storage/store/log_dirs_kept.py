"""Log directories that stay the same ones from when they are recognized as a store until they are locked.

A user who owns the directory above one may put a link in its place at any time. What was recognized, what is locked
and what is written to must be the same directory, so a writer opens it once and reaches everything from there.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from storage.errors import StorageError
from storage.log_dir.log_dir import distinct_log_dirs, lock_all
from storage.log_dir.recognition import check_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.files import Directory
    from storage.log_dir.log_dir import LogDir

_REPLACED: Final = "the log directory was replaced by another while it was open; nothing was written to that one"


@contextmanager
def kept_open(directories: Sequence[Directory]) -> Iterator[None]:
    """Keep log directories open in a block; raises `NotAStoreError` if one is not there.

    An error of the block that comes from another directory in the place of one is a `StorageError` that says so.
    """
    with ExitStack() as kept:
        for directory in directories:
            try:
                kept.enter_context(directory.kept())
            except OSError:
                check_stores(directories)  # says it better
                raise
        try:
            yield
        except (StorageError, OSError):
            _check_in_place(directories)
            raise


def locked_log_dirs(
    directories: Sequence[Directory], unlocking: ExitStack, check: Callable[[Sequence[Directory]], None]
) -> list[LogDir]:
    """Lock the log directories that pass a check, and return them; `unlocking` lets others have them again.

    Nothing is written to one that does not pass, nor to one that takes the place of one that did.
    """
    with kept_open(directories):
        check(directories)
        log_dirs = distinct_log_dirs(directories)
        lock_all(log_dirs, unlocking)
        _check_in_place(directories)
    return log_dirs


def _check_in_place(directories: Sequence[Directory]) -> None:
    for directory in directories:
        if not directory.is_in_place():
            raise StorageError(_REPLACED, path=directory)
