"""What a failure to write does to a log: it is refused as a whole, or the log takes nothing more.

After a failed write or flush nobody knows what is on disk, and asking again would not tell: the kernel reports an error
once. So the first one poisons the log, and every later attempt to write fails until recovery has looked at the files.
A full disk is no such failure where what was begun could be undone.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from storage.errors import DiskFullError, InvalidIndexEntryError, PoisonedLogError

if TYPE_CHECKING:
    from types import TracebackType

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Poison:
    """Whether one log may still be written; `error` says why not.

    `refusing` and `poisoning` are for `with`: around what leaves the log as it was if it fails, and around what does
    not. Both turn an `OSError` into a `StorageError`.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.error: PoisonedLogError | None = None
        self.refusing = _Guard(self, is_undone=True)
        self.poisoning = _Guard(self, is_undone=False)
        self._path = os.fspath(directory)

    def check(self) -> None:
        """Raise `PoisonedLogError` if nothing may be written any more."""
        if self.error is not None:
            raise PoisonedLogError(self.error.reason, path=self._path) from self.error

    def failure(self, error: Exception, *, is_undone: bool) -> Exception | None:
        """What to raise in place of an error, after drawing the consequences; None for the error itself."""
        if isinstance(error, PoisonedLogError):
            self.error = error
            return None
        if isinstance(error, OSError) and error.errno in _NO_SPACE and is_undone:
            return DiskFullError(f"nothing was changed: {error.strerror}", path=error.filename or self._path)
        if isinstance(error, OSError) or (isinstance(error, InvalidIndexEntryError) and not is_undone):
            self.error = PoisonedLogError(f"the log takes nothing more since writing failed: {error}", path=self._path)
            return self.error
        return None


class _Guard:
    def __init__(self, poison: Poison, *, is_undone: bool) -> None:
        self._poison = poison
        self._is_undone = is_undone

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            instead = self._poison.failure(error, is_undone=self._is_undone)
            if instead is not None:
                raise instead from error
