"""Whose new files and directories below a log directory are, and who may read them.

A store belongs to a broker's user. What root makes in a directory of another user is that user's, so that the broker
can go on with it; what anybody else makes is their own, and no owner is changed. A new file of a segment may be read by
those who may read the file before it, a file that replaces another by those who may read that.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from storage.files.directory import Directory
    from storage.files.opened import FileStatus

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


class Model(NamedTuple):
    """A file, or the directory itself under the name `.`, whose permissions a new one is given."""

    directory: Directory
    name: str

    def access_list(self) -> bytes | None:
        """Its POSIX access list, None if it has none."""
        return self.directory.access_list(self.name)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a new file or directory is to be like.

    Without an `owner` it is the process's own. One with a `model` has just that `mode` in the end; otherwise the
    process's umask counts too. `gid` is the group to which the model's bits are given.
    """

    owner: tuple[int, int] | None = None
    mode: int = FILE_MODE
    model: Model | None = None
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


def terms_of_file(directory: Directory, name: str, uid: int) -> Terms:
    """What a new file is to be like when this user makes it. One that is no store's is like any other."""
    found = directory.own_status() if directory.is_of_store else None
    if found is None:
        return Terms()
    if name.endswith(_TEMPORARY_SUFFIX):
        name = name.removesuffix(_TEMPORARY_SUFFIX)
        replaced = _regular(directory, name)
        if replaced is not None:
            owner = (replaced.uid, replaced.gid) if uid == ROOT_UID else None
            return Terms(owner, replaced.mode, Model(directory, name), replaced.gid)
    owner = _owner_in(found, uid)
    if directory.above is None:
        return Terms(owner)
    names = []
    with suppress(PermissionError):  # it may be written to and not be listed
        names = [each for each in directory.names() if not each.endswith(_TEMPORARY_SUFFIX)]
    form = _SEGMENT_FILE.fullmatch(name)
    logs = [each for each in names if _is_live(each, _LOG_SUFFIX)]
    if form is not None:
        before = _before(form[1], [each for each in names if _is_live(each, form[2])])
        status = None if before is None else _regular(directory, before)
        if before is not None and status is not None:
            # What is merged of several segments may be read by those who may read all of them.
            is_log = form[3] is not None and form[2] == _LOG_SUFFIX
            mode = _common(directory, logs, status.mode) if is_log else status.mode
            return Terms(owner, mode, Model(directory, before), status.gid)
    log = _before(name[:_OFFSET_DIGITS] if form is not None else "9" * _OFFSET_DIGITS, logs)
    return Terms(owner, _common(directory, names if log is None else [log], FILE_MODE))


def terms_of_directory(above: Directory | None, like: Directory | None, uid: int) -> Terms:
    """What a new directory is to be like: as another one, or in a store as the one that it is made in."""
    model = None if like is None else like.own_status()
    if like is not None and model is not None and model.is_directory:
        owner = (model.uid, model.gid) if uid == ROOT_UID else None
        return Terms(owner, model.mode, Model(like, "."), model.gid)
    found = above.own_status() if above is not None and above.is_of_store else None
    if found is None:
        return Terms(mode=_DIRECTORY_MODE)
    return Terms(_owner_in(found, uid), _DIRECTORY_MODE & found.mode)


def _owner_in(found: FileStatus, uid: int) -> tuple[int, int] | None:
    return (found.uid, found.gid) if uid == ROOT_UID != found.uid else None


def _regular(directory: Directory, name: str) -> FileStatus | None:
    found = directory.status(name)
    return None if found is None or found.is_directory or found.is_link else found


def _is_live(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and len(name) == _OFFSET_DIGITS + len(suffix)


def _before(offset: str, names: list[str]) -> str | None:
    """The name with the largest offset up to this one; the first name where all offsets are larger."""
    if not names:
        return None
    before = [each for each in names if each[:_OFFSET_DIGITS] <= offset]
    return max(before) if before else min(names)


def _common(directory: Directory, names: list[str], mode: int) -> int:
    """The bits of a mode that all files of these names have; the owner's stay."""
    for name in names:
        found = _regular(directory, name)
        if found is not None:
            mode &= found.mode | 0o700
    return mode
