"""New files and directories get the owner and the permissions that `storage.files.ownership` says.

This works on descriptors of new files, so no older file is given away or opened to others. A file gets no data before
it is settled.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from storage.errors import OwnerError
from storage.files.listed import ACCESS_LIST
from storage.files.opened import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.files.ownership import Terms


def settle(descriptor: int, path: str, terms: Terms) -> None:
    """Apply the terms to an empty new file or directory; raises `OwnerError` if it cannot be given away."""
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
    # The group's bits of the mode of a file with an access list are the mask of that list.
    access_list = terms.model.access_list() if terms.model is not None and gid == terms.gid else None
    if access_list is not None:
        os.setxattr(descriptor, ACCESS_LIST, access_list)
    if access_list is not None or mode != made.mode:
        os.fchmod(descriptor, mode)


@contextmanager
def undoing(descriptor: int, path: str, undo: Callable[[], None]) -> Iterator[None]:
    """Close and remove a new file or directory if the block fails."""
    try:
        yield
    except BaseException as error:
        os.close(descriptor)
        with suppress(OSError):
            undo()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path
        raise
