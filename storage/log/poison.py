"""Failures while a log is changed: the change is refused as a whole, or the log accepts no more changes.

After a failed write or flush it is unknown what is on disk, and asking again would not tell: the kernel reports an
error once. An exception of any other kind that ends a change half-way, such as a `MemoryError`, an interrupt or a bug,
leaves bytes that the log does not know of. So an exception in a change poisons the log, and every later attempt
to write fails until recovery has checked the files. Only a full disk and a partition with as many segments as may be do
not, where the partial change is undone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from storage.errors import DiskFullError, PoisonedLogError, TooManySegmentsError, is_full_disk

if TYPE_CHECKING:
    from types import TracebackType


_REFUSALS: Final = (DiskFullError, TooManySegmentsError)


class Poison:
    """The state of a log that a failure may have poisoned; `error` says why it accepts no more changes.

    Three guards, for `with`:

    - `changing` is around a whole change, from the first write until readers see it. An exception that leaves it,
      except one of `_REFUSALS`, poisons the log. Only the thread that excludes all other changes may enter it, and
      may enter it again.
    - `refusing`, within it, is around steps that a full disk leaves undone: there the disk's error becomes a
      `DiskFullError`.
    - `poisoning` is around steps that any failure poisons, a full disk too; any thread may enter it.

    An `Exception` that poisons the log becomes a `PoisonedLogError`; others, such as an interrupt, pass unchanged.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.error: PoisonedLogError | None = None
        self.changing = _Changing(self)
        self.refusing = _Refusing(os.fspath(directory))
        self.poisoning = _Poisoning(self)
        self._path = os.fspath(directory)

    def check(self) -> None:
        """Raise `PoisonedLogError` if the log is poisoned; any thread may call this."""
        if self.error is not None:
            raise PoisonedLogError(self.error.reason, path=self._path) from self.error

    def settle(self) -> None:
        """Poison the log if a change began and never ended, as an interrupt may come at any time.

        Only the thread that excludes all changes may call this, outside of any change.
        """
        if self.changing.depth and self.error is None:
            self._poison("it was interrupted")

    def poison(self, error: BaseException) -> PoisonedLogError:
        """Poison the log because of this error, unless it is poisoned; returns the first error, for raising."""
        if self.error is None:
            if isinstance(error, PoisonedLogError):
                self.error = error
            else:
                self._poison(str(error) or type(error).__name__)
        assert self.error is not None
        return self.error

    def _poison(self, reason: str) -> None:
        self.error = PoisonedLogError(f"the log takes nothing more since writing failed: {reason}", path=self._path)


class _Poisoning:
    def __init__(self, poison: Poison) -> None:
        self._poison = poison

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            instead = self._poison.poison(error)
            if isinstance(error, Exception) and error is not instead:
                raise instead from error


class _Changing(_Poisoning):
    """`depth` counts the changes that were entered and not left, or left unnoticed."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, _REFUSALS):
            super().__exit__(kind, error, traceback)
        self.depth -= 1


class _Refusing:
    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and is_full_disk(error):
            raise DiskFullError(f"nothing was changed: {error.strerror}", path=error.filename or self._path) from error
