"""What an open directory says of the names in it, without a look at each by its path."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.files.opened import Access, FileStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCESS_LIST: Final = "system.posix_acl_access"


def statuses_in(descriptor: int) -> dict[str, FileStatus]:
    """Return the file system's answer about each name."""
    return {name: FileStatus.of(found) for name, found in _found_in(descriptor, lambda _: True)}


def accesses_in(
    descriptor: int,
    is_meant: Callable[[str], bool],
    refusal: Callable[[str, FileStatus], OSError | None],
    *,
    with_access_lists: bool,
) -> set[Access]:
    """Return the different owners and modes of the regular files that have such names and are a store's own.

    With access lists, a file that has one grants nothing but to its owner.
    """
    accesses = set()
    for name, found in _found_in(descriptor, is_meant):
        mode = found.st_mode
        if not stat.S_ISREG(mode) or (found.st_nlink > 1 and refusal(name, FileStatus.of(found)) is not None):
            continue
        has_list = with_access_lists and mode & 0o077 and has_access_list(descriptor, name)
        accesses.add(Access(found.st_uid, found.st_gid, mode & (0o700 if has_list else 0o777)))
    return accesses


def has_access_list(place: int, name: str) -> bool:
    """Return True if a file in an open directory has an access list.

    Most have none, and an error takes longer than asking for the names of all attributes.
    """
    try:
        return ACCESS_LIST in os.listxattr(f"/proc/self/fd/{place}/{name}", follow_symlinks=False)
    except OSError:  # the file system has no attributes
        return False


def read_access_list(place: int, name: str) -> bytes | None:
    """Return the access list of a file in an open directory; None if it has none."""
    if not has_access_list(place, name):
        return None
    return os.getxattr(f"/proc/self/fd/{place}/{name}", ACCESS_LIST, follow_symlinks=False)


def _found_in(descriptor: int, is_meant: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if is_meant(entry.name):
                with suppress(FileNotFoundError):  # it was removed since
                    yield entry.name, entry.stat(follow_symlinks=False)
