"""The errors of the tree itself, apart from the store's. Each has a sentence that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import DecompressedTooLargeError

if TYPE_CHECKING:
    from storage.errors import CorruptBatchError


class TreeError(Exception):
    """The root of what the tree raises."""


class NotThereError(TreeError):
    """No file or directory has this name: ENOENT."""


class AmbiguousPathError(NotThereError):
    """The name is refused because it has two readings: ENOENT, and the log names both."""


class NotPermittedError(TreeError):
    """The tree never does this, or not with these options: EPERM."""


class InvalidInputError(TreeError):
    """The written bytes, or the name to be made, are malformed: EINVAL."""


class ReadOnlyTreeError(TreeError):
    """The store is open for reading only: EROFS."""


class NotInThisTreeError(TreeError):
    """There are such files, but not with these options: ENOTSUP."""


class DamagedError(TreeError):
    """The log is damaged where it would have to be read: EIO."""


class TooLargeError(DamagedError):
    """The memory budget has no room for a batch, nor ever will: EFBIG."""


class TooManyPartitionsError(TreeError):
    """The store has more partitions than a file about all of them asks: EFBIG."""


class GoneError(TreeError):
    """The records were removed since the file was opened: EIO."""


class NarrowedError(TreeError):
    """Some users may not read the log any more, of whom one may have opened the file: EACCES."""


def damaged(error: CorruptBatchError) -> DamagedError:
    """Return the error of the tree for a batch that cannot be decoded."""
    return TooLargeError(str(error)) if isinstance(error, DecompressedTooLargeError) else DamagedError(str(error))
