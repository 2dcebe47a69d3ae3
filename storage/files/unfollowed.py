"""Opening files by name without following symbolic links.

A log directory that a user named is a root: it may be a link itself, and so may all that leads to it. Below a root no
link is followed: neither a partition's directory nor a file in it can be one. Elsewhere the last name of a path cannot.
What has a link in its place raises `SymbolicLinkError`, and what is no regular file is neither opened nor waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from storage.errors import SymbolicLinkError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Roots: TypeAlias = frozenset[str]

_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
_NO_FILE: Final = "is not a regular file, and kafkafs opens no others"


def open_file(path: str, flags: int, roots: Roots, mode: int = 0) -> int:
    """A descriptor of a regular file."""
    flags |= os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end
    if path not in roots:
        flags |= os.O_NOFOLLOW
    with placed(path, roots) as (name, place):
        descriptor = os.open(name, flags, mode, dir_fd=place)
    try:
        _check_is_file(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_is_file(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, _NO_FILE, path)


def open_directory(path: str, roots: Roots, *, may_be_above: bool = False) -> int:
    """A descriptor of a directory, in which its names can be read.

    One that `may_be_above` a root may be a link like it, unless it lies directly below a root.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    if path not in roots and not (may_be_above and _parent(path) not in roots):
        flags |= os.O_NOFOLLOW
    with placed(path, roots) as (name, place):
        return os.open(name, flags, dir_fd=place)


def status_of(path: str, roots: Roots) -> os.stat_result:
    """What the file system knows of a path; of a link, unless it is a root, what it knows of the link."""
    if path in roots:
        return os.stat(path)
    if not _is_below_partition(path, roots):
        return os.lstat(path)
    try:
        place = os.open(_parent(path), _PLACE)
        try:
            return os.stat(path.rpartition("/")[2], dir_fd=place, follow_symlinks=False)
        finally:
            os.close(place)
    except OSError as error:
        raise _explained(error, path, roots) from None


@contextmanager
def placed(path: str, roots: Roots) -> Iterator[tuple[str, int | None]]:
    """How to name a path in a call to the kernel: a name, and the descriptor that it is relative to.

    While the block runs, the directory is the one that was found: nothing can be put in its place. An `OSError` leaves
    the block with the path in it, and says which link stands in the way.
    """
    place = None
    try:
        if _is_below_partition(path, roots):
            place = os.open(_parent(path), _PLACE)
            yield path.rpartition("/")[2], place
        else:
            yield path, None
    except OSError as error:
        raise _explained(error, path, roots) from None
    finally:
        if place is not None:
            os.close(place)


def is_below_root(path: str, roots: Roots) -> bool:
    """Whether the path is that of a file or directory in a root, or in a directory in one, and is no root itself."""
    parent = _parent(path)
    return path not in roots and (parent in roots or _parent(parent) in roots)


def _is_below_partition(path: str, roots: Roots) -> bool:
    """Whether the path is that of a file in a directory below a root."""
    parent = _parent(path)
    return parent not in roots and _parent(parent) in roots


def _parent(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head or slash or "."


def _explained(error: OSError, path: str, roots: Roots) -> OSError:
    if isinstance(error, SymbolicLinkError):
        return error
    if error.errno in _LINKED and path not in roots:
        for each in (_parent(path), path) if _is_below_partition(path, roots) else (path,):
            if os.path.islink(each):
                return SymbolicLinkError(each)
    error.filename = path
    return error
