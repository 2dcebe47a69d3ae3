"""Maps the errors of the tree, the store and the operating system to error numbers."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from kafkafs.locator.errors import BadNameError
from kafkafs.tree.errors import (
    DamagedError,
    GoneError,
    InvalidInputError,
    NotInThisTreeError,
    NotPermittedError,
    NotThereError,
    ReadOnlyTreeError,
)
from storage.errors import (
    BatchTooLargeError,
    ConfigError,
    CorruptBatchError,
    DiskFullError,
    InvalidRecordError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    PoisonedLogError,
    ReadOnlyStoreError,
    RecordTooLargeError,
    RefusedAppendError,
    StorageError,
    StoreLockedError,
    UnexpectedOffsetError,
    UnknownPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS: Final[Mapping[type[Exception], int]] = {
    BadNameError: errno.ENOENT,
    NotThereError: errno.ENOENT,
    UnknownPartitionError: errno.ENOENT,
    NotPermittedError: errno.EPERM,
    InvalidInputError: errno.EINVAL,
    InvalidRecordError: errno.EINVAL,
    InvalidTopicError: errno.EINVAL,
    ConfigError: errno.EINVAL,
    RefusedAppendError: errno.EINVAL,
    UnexpectedOffsetError: errno.EINVAL,
    RecordTooLargeError: errno.EMSGSIZE,
    BatchTooLargeError: errno.EMSGSIZE,
    ReadOnlyTreeError: errno.EROFS,
    ReadOnlyStoreError: errno.EROFS,
    NotInThisTreeError: errno.ENOTSUP,
    DiskFullError: errno.ENOSPC,
    StoreLockedError: errno.EBUSY,
    PoisonedLogError: errno.EIO,
    DamagedError: errno.EIO,
    GoneError: errno.EIO,
    StorageError: errno.EIO,
    MemoryError: errno.ENOMEM,
}
"""The nearest class of an error decides. Any other that is no `OSError` is a bug: EIO."""

_ON_WRITE: Final[Mapping[type[Exception], int]] = {
    CorruptBatchError: errno.EINVAL,  # the input is malformed; a damaged log raises another error
    OffsetOutOfRangeError: errno.EINVAL,
}
_OF_OPEN_FILES: Final = frozenset({errno.ENOENT, errno.EBADF})
"""Numbers that an open descriptor never fails with: its file was removed."""


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
