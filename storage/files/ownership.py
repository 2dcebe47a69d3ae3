"""The owner and the permissions of new files and directories below a log directory.

A store belongs to a broker's user. Root gives new files to the owner of their directory, so that the broker can go on
with them; another user keeps the files it makes. A new file of a segment is as open as the same file of the segment
before it, a file that replaces another is as open as that one, and the parts of a segment are as open as its log.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.files.directory import MadeFile
from storage.files.opened import Access

if TYPE_CHECKING:
    from storage.files.directory import Directory
    from storage.files.opened import FileStatus

ROOT_UID: Final = 0
FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o777
PERMISSIONS: Final = 0o777
_TEMPORARY_SUFFIX: Final = ".tmp"  # of a file that is about to replace the file without the suffix
_LOG_SUFFIX: Final = ".log"
_OFFSET_DIGITS: Final = 20
_LAST_OFFSET: Final = "9" * _OFFSET_DIGITS
_AFTER_OFFSETS: Final = ":"  # which comes after all digits
_SEGMENT_FILE: Final = re.compile(rf"(\d{{{_OFFSET_DIGITS}}})(\.[a-z]+)(\.[a-z]+)?")


class Model(NamedTuple):
    """A file, or the directory itself under the name `.`, whose permissions a new one is given."""

    directory: Directory
    name: str

    def access_list(self) -> bytes | None:
        """Return its POSIX access list, None if it has none."""
        return self.directory.access_list(self.name)


@dataclass(frozen=True, slots=True)
class Terms:
    """The owner and the permissions for a new file or directory.

    Without an `owner` it is the process's own. With a `model` the final mode is just `mode`; otherwise the process's
    umask counts too. `gid` is the group to which the model's bits are given.
    """

    owner: tuple[int, int] | None = None
    mode: int = FILE_MODE
    model: Model | None = None
    gid: int | None = None

    def limited(self, bits: int) -> Terms:
        """Return the same terms with no permission bits but some of these."""
        return self if self.mode & ~bits == 0 else replace(self, mode=self.mode & bits)

    @property
    def making_mode(self) -> int:
        """The mode to make it with. Until it is settled, only users who may open the model may open it.

        Others may at once what the model lets all users do: a reader of the store who looks in between sees a file
        that is as open as it is going to be.
        """
        if self.model is None:
            return self.mode
        of_all = self.mode >> 6 & self.mode >> 3 & self.mode & 0o7
        if of_all and self.model.access_list() is not None:
            of_all = 0
        return self.mode & 0o700 | of_all << 3 | of_all

    def settled(self, made: Access) -> Access:
        """Return the owner and the permissions to give to a new file, which was made with `made`."""
        uid, gid = self.owner or (made.uid, made.gid)
        if self.model is None:
            return Access(uid, gid, made.mode)
        mode = self.mode
        if gid != self.gid:  # another group gets no more than all other users have
            mode &= ~0o070 | (mode & 0o007) << 3
        return Access(uid, gid, made.mode & ~PERMISSIONS | mode)


def terms_of_file(directory: Directory, name: str, uid: int) -> Terms:
    """Return the terms of a new file that this user makes. Files outside of stores have none."""
    found = directory.reached_status() if directory.is_of_store else None
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
    form = _SEGMENT_FILE.fullmatch(name)
    if form is None:
        return Terms(owner, _common_of_log(directory, _listed(directory), _LAST_OFFSET))
    offset, suffix = form[1], form[2]
    whole = _split_model(directory, offset)
    # Only users who may read all of the merged segments may read the result.
    is_merged = form[3] is not None and suffix == _LOG_SUFFIX and whole is None
    model = None if is_merged else whole or _known_model(directory, offset, suffix)
    if model is None:
        names = _listed(directory)
        model = _listed_model(directory, offset, suffix, names)
        if model is None:
            return Terms(owner, _common_of_log(directory, names, offset))
    before, status = model
    mode = status.mode
    if is_merged:
        mode = _common(directory, [each for each in names if _is_live(each, _LOG_SUFFIX)], mode)
    return Terms(owner, mode, Model(directory, before), status.gid)


def terms_of_directory(above: Directory | None, like: Directory | None, uid: int) -> Terms:
    """Return the terms of a new directory: those of `like`, or in a store those of the directory `above`."""
    model = None if like is None else like.reached_status()
    if like is not None and model is not None and model.is_directory:
        owner = (model.uid, model.gid) if uid == ROOT_UID else None
        return Terms(owner, model.mode, Model(like, "."), model.gid)
    found = above.reached_status() if above is not None and above.is_of_store else None
    if found is None:
        return Terms(mode=_DIRECTORY_MODE)
    return Terms(_owner_in(found, uid), _DIRECTORY_MODE & found.mode)


def _owner_in(found: FileStatus, uid: int) -> tuple[int, int] | None:
    return (found.uid, found.gid) if uid == ROOT_UID != found.uid else None


def _regular(directory: Directory, name: str) -> FileStatus | None:
    found = directory.status(name)
    return None if found is None or found.is_directory or found.is_link else found


def _split_model(directory: Directory, offset: str) -> tuple[str, FileStatus] | None:
    """Return the log of the segment that is being split, and its status, if the offset is of one of its parts."""
    split = directory.split
    if split is None or not split.offset <= offset < split.following:
        return None
    name = split.offset + _LOG_SUFFIX
    status = _regular(directory, name)
    return None if status is None else (name, status)


def _known_model(directory: Directory, offset: str, suffix: str) -> tuple[str, FileStatus] | None:
    """Return the file of the segment before an offset, and its status, if it is known without listing names."""
    status = _regular(directory, offset + suffix)
    if status is not None:  # the new file is about to replace this one
        return offset + suffix, status
    made = directory.made.get(suffix)
    if made is None or not made.offset <= offset < made.following:
        return None
    name = made.offset + suffix
    status = _regular(directory, name)
    if status is None:
        return None
    directory.made = {**directory.made, suffix: made._replace(offset=offset)}
    return name, status


def _listed_model(directory: Directory, offset: str, suffix: str, names: list[str]) -> tuple[str, FileStatus] | None:
    """Return the file of the segment before an offset, or of the first one, and its status; None if there is none."""
    offsets = {each[:_OFFSET_DIGITS] for each in names if _is_live(each, suffix)}
    following = min((each for each in offsets if each > offset), default=_AFTER_OFFSETS)
    if names:  # a directory that may not be listed has none
        directory.made = {**directory.made, suffix: MadeFile(offset, following)}
    if not offsets:
        return None
    name = max((each for each in offsets if each <= offset), default=following) + suffix
    status = _regular(directory, name)
    return None if status is None else (name, status)


def _listed(directory: Directory) -> list[str]:
    with suppress(PermissionError):  # a directory may be writable and not listable
        return [each for each in directory.names() if not each.endswith(_TEMPORARY_SUFFIX)]
    return []


def _is_live(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and len(name) == _OFFSET_DIGITS + len(suffix)


def _common_of_log(directory: Directory, names: list[str], offset: str) -> int:
    """Return the bits of the log of the segment before an offset, or of the first one; without any, of all files."""
    logs = [each for each in names if _is_live(each, _LOG_SUFFIX)]
    before = [each for each in logs if each[:_OFFSET_DIGITS] <= offset]
    models = [max(before) if before else min(logs)] if logs else names
    return _common(directory, models, FILE_MODE)


def _common(directory: Directory, names: list[str], mode: int) -> int:
    """Return the bits of a mode that all files of these names have. The owner's bits stay."""
    for name in names:
        found = _regular(directory, name)
        if found is not None:
            mode &= found.mode | 0o700
    return mode
