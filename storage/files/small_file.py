"""Small files, which are read and replaced whole: after any crash a reader finds the old contents or the new ones."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import StorageError, SymbolicLinkError, is_full_disk

if TYPE_CHECKING:
    from storage.files.operations import Operations

TEMPORARY_SUFFIX: Final = ".tmp"
SMALL_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size up to which a small file is read; a checkpoint of a million partitions is smaller."""


def read_small_file(files: Operations, path: str | os.PathLike[str], refusal: type[StorageError]) -> bytes:
    """All of a file; raises `refusal`, having read nothing, if it is larger than `SMALL_FILE_BYTES_MAX`."""
    with files.open_reading(path) as file:
        size_bytes = file.size_bytes()
        if size_bytes > SMALL_FILE_BYTES_MAX:
            raise refusal(
                f"the file has {size_bytes} bytes, and a file of its kind is read up to {SMALL_FILE_BYTES_MAX}",
                path=path,
            )
        return file.read_at(0, size_bytes)


def replace_file(files: Operations, path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Give the file these contents, by way of a temporary file beside it.

    With `sync` they are on disk when this returns. Without, the death of the process still leaves the one or the
    other, but a loss of power can leave the file with any contents. An error leaves the old or the new ones, whole; one
    that says that the disk is full leaves the old ones. Its permissions stay as they were, and its owner where root
    replaces it.
    """
    temporary = f"{os.fspath(path)}{TEMPORARY_SUFFIX}"
    try:
        _remove_left(files, temporary)
        with files.open_writing(temporary, create=True, exclusive=True) as file:
            file.write_at(0, [data])
            if sync:
                file.sync()
        files.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            files.remove(temporary)
        raise
    if sync:
        try:
            files.sync_directory(Path(path).parent)
        except OSError as error:
            if is_full_disk(error):  # which would say that nothing was changed
                raise OSError(errno.EIO, f"the file was replaced, but not on disk: {error.strerror}", path) from error
            raise


def _remove_left(files: Operations, path: str) -> None:
    """Remove what a crash left: it may be somebody else's, or have another name too."""
    left = files.status(path)
    if left is not None and left.is_link:
        raise SymbolicLinkError(path)
    if left is not None:
        files.remove(path)
