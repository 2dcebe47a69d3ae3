"""Whose new files and directories below a log directory are, and who may read them.

A store belongs to a broker's user. What root makes in a directory of another user is that user's, so that the broker
can go on with it; what anybody else makes is their own, and no owner is changed. A new file of a segment may be read by
those who may read the file before it, a file that replaces another by those who may read that.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.files.unfollowed import is_below_root

if TYPE_CHECKING:
    from storage.files.opened import FileStatus
    from storage.files.operations import Operations
    from storage.files.unfollowed import Roots

ROOT_UID: Final = 0
FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o777
PERMISSIONS: Final = 0o777
_TEMPORARY_SUFFIX: Final = ".tmp"  # of a file that is about to replace the one without it
_LOG_SUFFIX: Final = ".log"
_OFFSET_DIGITS: Final = 20
_SEGMENT_FILE: Final = re.compile(rf"(\d{{{_OFFSET_DIGITS}}})(\.[a-z]+)(\.[a-z]+)?")


class Access(NamedTuple):
    """Whose a file or directory is, and its permission bits."""

    uid: int
    gid: int
    mode: int


def access_of(status: FileStatus) -> Access:
    """What the file system says of it."""
    return Access(status.uid, status.gid, status.mode)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a new file or directory is to be like.

    Without an `owner` it is the process's own. One with a `model`, a path, has just that `mode` in the end; otherwise
    the process's umask counts too. `gid` is the group to which the model's bits are given.
    """

    owner: tuple[int, int] | None = None
    mode: int = FILE_MODE
    model: str | None = None
    gid: int | None = None

    @property
    def making_mode(self) -> int:
        """The mode to make it with. Until it is settled, only users who may open the model may open it."""
        return self.mode if self.model is None else self.mode & 0o700

    def settled(self, made: Access) -> Access:
        """What becomes of one that was made with these terms and is so at first."""
        uid, gid = self.owner or (made.uid, made.gid)
        if self.model is None:
            return Access(uid, gid, made.mode)
        mode = self.mode
        if gid != self.gid:  # another group may do no more than all others may
            mode &= ~0o070 | (mode & 0o007) << 3
        return Access(uid, gid, made.mode & ~PERMISSIONS | mode)


def terms_of_file(files: Operations, path: str, uid: int, roots: Roots) -> Terms:
    """What a new file is to be like when this user makes it. Elsewhere than below a root it is like any other."""
    if not is_below_root(path, roots):
        return Terms()
    directory, _, name = path.rpartition("/")
    place = files.status(directory)
    if place is None:
        return Terms()
    if name.endswith(_TEMPORARY_SUFFIX):
        name = name.removesuffix(_TEMPORARY_SUFFIX)
        replaced = _regular(files, f"{directory}/{name}")
        if replaced is not None:
            owner = (replaced.uid, replaced.gid) if uid == ROOT_UID else None
            return Terms(owner, replaced.mode, f"{directory}/{name}", replaced.gid)
    owner = _owner_in(place, uid)
    if directory in roots:
        return Terms(owner)
    names = []
    with suppress(PermissionError):  # it may be written to and not be listed
        names = [each for each in files.names(directory) if not each.endswith(_TEMPORARY_SUFFIX)]
    form = _SEGMENT_FILE.fullmatch(name)
    logs = [each for each in names if _is_live(each, _LOG_SUFFIX)]
    if form is not None:
        before = _before(form[1], [each for each in names if _is_live(each, form[2])])
        found = None if before is None else _regular(files, f"{directory}/{before}")
        if found is not None:
            # What is merged of several segments may be read by those who may read all of them.
            mode = _common(files, directory, logs, found.mode) if form[3] and form[2] == _LOG_SUFFIX else found.mode
            return Terms(owner, mode, f"{directory}/{before}", found.gid)
    log = _before(name[:_OFFSET_DIGITS] if form is not None else "9" * _OFFSET_DIGITS, logs)
    return Terms(owner, _common(files, directory, names if log is None else [log], FILE_MODE))


def terms_of_directory(
    files: Operations, path: str | os.PathLike[str], like: str | os.PathLike[str] | None, uid: int, roots: Roots
) -> Terms:
    """What a new directory is to be like: as another one, or below a root as the one that it is made in."""
    model = None if like is None else files.status(like)
    if like is not None and model is not None and model.is_directory:
        return Terms((model.uid, model.gid) if uid == ROOT_UID else None, model.mode, os.fspath(like), model.gid)
    place = files.status(os.fspath(path).rpartition("/")[0])
    if place is None or not is_below_root(os.fspath(path), roots):
        return Terms(mode=_DIRECTORY_MODE)
    return Terms(_owner_in(place, uid), _DIRECTORY_MODE & place.mode)


def _owner_in(place: FileStatus, uid: int) -> tuple[int, int] | None:
    return (place.uid, place.gid) if uid == ROOT_UID != place.uid else None


def _regular(files: Operations, path: str) -> FileStatus | None:
    found = files.status(path)
    return None if found is None or found.is_directory or found.is_link else found


def _is_live(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and len(name) == _OFFSET_DIGITS + len(suffix)


def _before(offset: str, names: list[str]) -> str | None:
    """The name with the largest offset up to this one; the first name where all offsets are larger."""
    if not names:
        return None
    before = [each for each in names if each[:_OFFSET_DIGITS] <= offset]
    return max(before) if before else min(names)


def _common(files: Operations, directory: str, names: list[str], mode: int) -> int:
    """The bits of a mode that all files of these names have; the owner's stay."""
    for name in names:
        found = _regular(files, f"{directory}/{name}")
        if found is not None:
            mode &= found.mode | 0o700
    return mode
