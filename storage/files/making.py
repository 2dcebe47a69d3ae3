"""Making files and directories with the owner and the permissions that `storage.files.ownership` says.

All is done on descriptors of what was just made: nothing that was there before is given away or opened to others, and
no data is in a file before it is settled.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from storage.errors import OwnerError
from storage.files.ownership import FILE_MODE, ROOT_UID, Access, Terms, terms_of_directory, terms_of_file
from storage.files.unfollowed import is_below_root, open_directory, open_file, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.files.operations import Operations
    from storage.files.unfollowed import Roots

_ACL: Final = "system.posix_acl_access"


def made_file(files: Operations, path: str, roots: Roots, *, exclusive: bool = False) -> int:
    """A descriptor of a file, which is made if it is not there; `exclusive` refuses one that is."""
    if not is_below_root(path, roots):
        return open_file(path, os.O_RDWR | os.O_CREAT | (os.O_EXCL if exclusive else 0), roots, FILE_MODE)
    while True:
        if not exclusive:
            with suppress(FileNotFoundError):
                return open_file(path, os.O_RDWR, roots)
        terms = terms_of_file(files, path, os.geteuid(), roots)
        try:
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, roots, terms.making_mode)
        except FileExistsError:  # another process was faster; it may remove the file again
            if exclusive:
                raise
            continue
        with _undoing(descriptor, path, files.remove):
            _settle(descriptor, path, terms)
        return descriptor


def make_directory(files: Operations, path: str, roots: Roots, like: str | os.PathLike[str] | None) -> None:
    """Make a directory in one that exists, like another one if that is given."""
    terms = terms_of_directory(files, path, like, os.geteuid(), roots)
    with placed(path, roots) as (name, place):
        os.mkdir(name, terms.making_mode, dir_fd=place)
    if not is_below_root(path, roots):
        return
    descriptor = open_directory(path, roots)
    with _undoing(descriptor, path, files.remove_directory):
        if os.listdir(descriptor):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        _settle(descriptor, path, terms)
    os.close(descriptor)


def _settle(descriptor: int, path: str, terms: Terms) -> None:
    """Have what was just made, and is empty, be as the terms say; raises `OwnerError` where it cannot be given away."""
    found = os.fstat(descriptor)
    made = Access(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
    uid, gid, mode = terms.settled(made)
    if (uid, gid) != (made.uid, made.gid):
        try:
            os.fchown(descriptor, uid, gid)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EINVAL):
                raise OwnerError(path, uid, gid) from error
            raise
    has_list = terms.model is not None and gid == terms.gid and _copy_access_list(terms.model, descriptor)
    if has_list or mode != made.mode:
        os.fchmod(descriptor, mode)


def _copy_access_list(model: str, descriptor: int) -> bool:
    """Have a file the access list of another, if that has one: the group's bits of its mode are the list's mask."""
    try:
        found = os.getxattr(model, _ACL, follow_symlinks=False)
    except OSError:  # there is none, or the file system has none
        return False
    os.setxattr(descriptor, _ACL, found)
    return True


def check_can_give(directory: str) -> None:
    """Raise `OwnerError` if this user is root and cannot give to the directory's owner what is made in it.

    Nothing in the directory changes. A file system that has no files without names says it with the first file.
    """
    if os.geteuid() != ROOT_UID:
        return
    found = os.stat(directory)
    if found.st_uid == ROOT_UID:
        return
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        _settle(descriptor, directory, Terms((found.st_uid, found.st_gid)))
    finally:
        os.close(descriptor)


@contextmanager
def _undoing(descriptor: int, path: str, undo: Callable[[str], None]) -> Iterator[None]:
    """Close and remove what was just made, if the block fails."""
    try:
        yield
    except BaseException as error:
        os.close(descriptor)
        with suppress(OSError):
            undo(path)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path
        raise
