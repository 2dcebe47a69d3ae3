"""The one exit of all handlers: any exception but an error number would end the mount."""

from __future__ import annotations

import errno
import functools
import logging
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyfuse3

from kafkafs.locator.errors import BadNameError
from kafkafs.mount.dispatch import Waiting
from kafkafs.render.unfinished import UnfinishedTooLargeError
from kafkafs.tree.errors import (
    AmbiguousPathError,
    DamagedError,
    GoneError,
    InvalidInputError,
    NarrowedError,
    NotInThisTreeError,
    NotPermittedError,
    NotThereError,
    ReadOnlyTreeError,
    TooLargeError,
    TooManyPartitionsError,
)
from storage.errors import (
    BatchTooLargeError,
    ConfigError,
    CorruptBatchError,
    DecompressedTooLargeError,
    DiskFullError,
    InvalidRecordError,
    InvalidTopicError,
    MemoryBudgetError,
    OffsetOutOfRangeError,
    PoisonedLogError,
    ReadOnlyStoreError,
    RecordTooLargeError,
    RefusedAppendError,
    StorageError,
    StoreLockedError,
    TooManySegmentsError,
    UnexpectedOffsetError,
    UnknownPartitionError,
    forget_frames,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from kafkafs.mount.dispatch import RequestLoop
    from kafkafs.mount.metrics import Metrics

NUMBERS: Final[Mapping[type[Exception], int]] = {
    BadNameError: errno.ENOENT,
    NotThereError: errno.ENOENT,
    UnknownPartitionError: errno.ENOENT,
    NotPermittedError: errno.EPERM,
    NarrowedError: errno.EACCES,
    InvalidInputError: errno.EINVAL,
    InvalidRecordError: errno.EINVAL,
    InvalidTopicError: errno.EINVAL,
    ConfigError: errno.EINVAL,
    RefusedAppendError: errno.EINVAL,
    UnexpectedOffsetError: errno.EINVAL,
    RecordTooLargeError: errno.EMSGSIZE,
    UnfinishedTooLargeError: errno.EFBIG,
    BatchTooLargeError: errno.EMSGSIZE,
    ReadOnlyTreeError: errno.EROFS,
    ReadOnlyStoreError: errno.EROFS,
    NotInThisTreeError: errno.ENOTSUP,
    DiskFullError: errno.ENOSPC,
    StoreLockedError: errno.EBUSY,
    PoisonedLogError: errno.EIO,
    DamagedError: errno.EIO,
    TooLargeError: errno.EFBIG,
    TooManyPartitionsError: errno.EFBIG,
    GoneError: errno.EIO,
    DecompressedTooLargeError: errno.EFBIG,
    MemoryBudgetError: errno.ENOMEM,
    StorageError: errno.EIO,
    MemoryError: errno.ENOMEM,
}
"""The nearest class of an error decides. Any other that is no `OSError` is a bug: EIO."""

_ON_WRITE: Final[Mapping[type[Exception], int]] = {
    DecompressedTooLargeError: errno.EFBIG,
    CorruptBatchError: errno.EINVAL,  # the input is malformed; a damaged log raises another error
    OffsetOutOfRangeError: errno.EINVAL,
    TooManySegmentsError: errno.ENOSPC,
}
_OF_OPEN_FILES: Final = frozenset({errno.ENOENT, errno.EBADF})
"""Numbers that an open descriptor never fails with: its file was removed."""

log: Final = logging.getLogger("kafkafs.mount")

R = TypeVar("R")

_QUIET: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.EINTR})
"""Errors that are asked for all the time and are no faults: not logged."""
_SAID_ONCE: Final = frozenset({errno.EIO, errno.ELOOP})
_SAID_MAX: Final = 10_000
_BURST: Final = 200
_LINES_PER_S: Final = 5.0
"""How many refusals are logged one after another, and how many a second beyond: a user may ask for any nonsense."""


def number_of(error: Exception, *, is_write: bool = False, is_open: bool = False) -> int | None:
    """Return the number for an error, None for a bug."""
    number = _number_of(error, is_write=is_write)
    return errno.EIO if is_open and number in _OF_OPEN_FILES else number


def _number_of(error: Exception, *, is_write: bool) -> int | None:
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    for kind in type(error).__mro__:
        if is_write and kind in _ON_WRITE:
            return _ON_WRITE[kind]
        if kind in NUMBERS:
            return NUMBERS[kind]
    return None


class Guarded(Protocol):
    """An object with guarded handlers."""

    metrics: Metrics
    refusals: Refusals
    requests: RequestLoop


class Refusals:
    """Turns each error of a handler into a number, and into a line in the log if it deserves one."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._unsaid = 0
        self._lines_left = float(_BURST)
        self._said_at_s = monotonic()

    def number(self, operation: str, error: Exception, *, is_write: bool, is_open: bool) -> int:
        """Return the number that answers the request."""
        number = number_of(error, is_write=is_write, is_open=is_open)
        if number is None:
            log.error("%s failed in a way that kafkafs does not handle: this is a bug", operation, exc_info=error)
            return errno.EIO
        is_ambiguous = isinstance(error, AmbiguousPathError)
        if is_write or is_ambiguous or number not in _QUIET:
            line = f"{operation}: {sentence(error)} ({errno.errorcode.get(number, number)})"
            self._say(line, once=is_ambiguous or number in _SAID_ONCE)
        return number

    def _say(self, line: str, *, once: bool) -> None:
        """Log a line; errors that repeat, as damage does, are logged once, and of a flood of them some and how many."""
        if once and line in self._said:
            return
        now_s = monotonic()
        self._lines_left = min(self._lines_left + (now_s - self._said_at_s) * _LINES_PER_S, _BURST)
        self._said_at_s = now_s
        if self._lines_left < 1:
            self._unsaid += 1
            return
        self._lines_left -= 1
        if self._unsaid:
            log.warning("%d more refusals came too fast to be logged", self._unsaid)
            self._unsaid = 0
        if once and len(self._said) < _SAID_MAX:
            self._said.add(line)
        log.warning("%s", line)


def sentence(error: BaseException) -> str:
    """Return the sentence of an error, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def guarded(
    *, is_write: bool = False, is_open: bool = False
) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], Callable[..., Any]]:
    """Count and time a handler, and let it end only with an answer or a `FUSEError`.

    `is_write` if it changes something: each refusal is logged. `is_open` if it is called on an open descriptor.
    """

    def wrap(handler: Callable[..., Coroutine[Any, Any, R]]) -> Callable[..., Any]:
        operation = handler.__name__

        @functools.wraps(handler)
        async def answered(self: Guarded, *arguments: object) -> R:
            begun_ns = perf_counter_ns()
            try:
                answer = handler(self, *arguments)
                # Most answers wait for nothing, and so are there at the first step.
                awaited = answer.send(None)
                return await self.requests.awaited(answer, awaited, Waiting(operation, arguments, begun_ns))
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            except pyfuse3.FUSEError as error:
                self.metrics.failed(operation, errno.errorcode.get(error.errno, str(error.errno)))
                raise
            except Exception as error:  # noqa: BLE001 -- this is where exceptions end
                number = self.refusals.number(operation, error, is_write=is_write, is_open=is_open)
                forget_frames(error)
                self.metrics.failed(operation, errno.errorcode.get(number, str(number)))
                raise pyfuse3.FUSEError(number) from None
            finally:
                self.metrics.answered(operation, perf_counter_ns() - begun_ns)

        return answered

    return wrap
