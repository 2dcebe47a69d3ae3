"""Copies of files from one directory in another.

A copy is a new file, which shares blocks with its source where the file system can do that (a reflink), so that it
takes no time and no space until one of the two changes. The source is opened for reading only. Copies that are made
with the bits of `copied_bits` grant no user more than their sources do.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import RecordsCutOffError
from storage.files.opened import access_of
from storage.files.ownership import PERMISSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from storage.files.directory import Directory
    from storage.files.opened import Access, WritableFile

_PIECE_BYTES: Final = 16 * 1024 * 1024
_OWNER: Final = 0o700


class FileRange(NamedTuple):
    """The bytes of a file from `begin` up to `end`."""

    directory: Directory
    name: str
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return self.end - self.begin


def copy_ranges(
    ranges: Sequence[FileRange],
    target: Directory,
    name: str,
    *,
    modified_ms: int | None = None,
    tell: Callable[[int], object] = lambda _: None,
) -> None:
    """Make a file of the bytes of these ranges, one after the other; its data is on disk when this returns.

    `tell` is given the number of bytes after each piece; an exception of it ends the copying. Raises `FileExistsError`
    if the name is taken, and `RecordsCutOffError` where a source has become too short. After an error the new file is
    gone; after a crash it may be there with any part of its data. Its name is on disk once the target is synced.
    """
    with target.open_writing(name, create=True, exclusive=True) as file:
        try:
            position = 0
            for each in ranges:
                _copy_range(each, file, position, tell)
                position += each.size_bytes
            if modified_ms is not None:
                file.set_modified(modified_ms)
            file.sync()
        except BaseException:
            with suppress(OSError):
                target.remove(name)
            raise


def shared_bits(directory: Directory) -> int:
    """Return the permission bits that all files of a directory have; the owner's are all there."""
    bits = PERMISSIONS
    for found in directory.accesses(lambda _: True, with_access_lists=True):
        bits &= found.mode | _OWNER
    return bits


def copied_bits(directories: Iterable[Directory]) -> int:
    """Return the permission bits for copies of what is in these directories.

    A class of users may read the copies only if it may list and search all of the directories, and read all files in
    them. The copies are this process's: what a file grants to another group counts if it grants it to others as well.
    """
    bits = PERMISSIONS
    for directory in directories:
        try:
            own = directory.own_status()
            if own is not None:
                bits &= _classes(access_of(own).without_list(directory.access_list(".")), 0o5)
                for found in directory.accesses(lambda _: True, with_access_lists=True):
                    bits &= _classes(found, 0o4)
        except OSError:  # nothing is known of what it grants
            bits &= _OWNER
    return bits


def _classes(found: Access, needed: int) -> int:
    """Return all bits of each class that is granted what is needed, and of the owner."""
    of_others = found.mode & needed == needed
    of_group = found.mode >> 3 & needed == needed and (of_others or found.gid == os.getegid())
    return _OWNER | (0o070 if of_group else 0) | (0o007 if of_others else 0)


def _copy_range(source: FileRange, file: WritableFile, position: int, tell: Callable[[int], object]) -> None:
    with source.directory.open_reading(source.name) as opened:
        if not position and not source.begin and file.clone(opened):
            if file.size_bytes() < source.end:
                raise _cut_off(source)
            file.truncate(source.end)
            tell(source.size_bytes)
            return
        at = source.begin
        while at < source.end:
            copied = file.copy_from(opened, at, min(source.end - at, _PIECE_BYTES), position)
            if not copied:
                raise _cut_off(source)
            at += copied
            position += copied
            tell(copied)


def _cut_off(source: FileRange) -> RecordsCutOffError:
    reason = f"the file has become shorter than the {source.end} bytes that were to be copied"
    return RecordsCutOffError(reason, path=source.directory.path_of(source.name))
