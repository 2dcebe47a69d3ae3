"""The directory that a store is mounted at: checked, made if it is missing, freed of a dead mount.

Several processes may try to mount at one directory. Each checks it, and only the one that claims it mounts there.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.answering import Answer, answer_of
from kafkafs.mount.mountpoints.mounts import FILE_SYSTEM_TYPE, mount_at, place_of
from kafkafs.mount.mountpoints.places import check_apart
from kafkafs.mount.mountpoints.unmounting import detach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

log: Final = logging.getLogger("kafkafs.mount")

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NOTHING: Final[Mapping[str, Path]] = MappingProxyType({})


def check_mount_point(path: Path, store: Sequence[Path], kept: Mapping[str, Path] = _NOTHING) -> None:
    """Raise `MountError` if the store cannot be mounted there as things are, and change nothing.

    A missing directory or a dead mount is accepted: `mount_point` repairs that once the store is open and locked.
    """
    check_apart(path, store, kept)
    if _is_dead(path):
        return
    if path.is_symlink() or path.exists():
        _check_empty(path)
    elif not path.parent.is_dir():
        raise _without_parent(path)
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        raise MountError(f"{path} does not exist and cannot be made: this user may not write to {path.parent}")


@contextmanager
def mount_point(path: Path, store: Sequence[Path], kept: Mapping[str, Path] = _NOTHING) -> Iterator[Path]:
    """Provide an empty directory to mount at in the block, and remove it afterwards if it was made for this.

    Raises `MountError` if something is there, or if it and the store, or what else is `kept`, do not lie apart.
    """
    check_apart(path, store, kept)
    if _is_dead(path):
        detach(place_of(path))
        log.warning("%s: a mount whose process had died was taken away", path)
    is_made = _make(path)
    try:
        _check_empty(path)
        yield path.resolve()
    finally:
        if is_made:
            _remove(path)


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Claim a mount point for this process while it mounts there.

    Raises `MountError` if another one has it just now, has mounted there, or has removed it.
    """
    with _locked(path) as is_locked:
        if not is_locked:
            raise MountError(f"{path}: another process mounts there just now, or has removed it: try again")
        _check_unmounted(path)
        yield


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock the directory if no other process has and it is still at its path; True where it cannot be locked.

    A lock on the directory itself leaves no file, and ends with the process.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:  # a directory that this user may not look into is libfuse's to refuse
        yield error.errno not in _GONE
        return
    try:
        yield _lock(descriptor) and os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # there are file systems whose directories cannot be locked
        return True
    return True


def _remove(path: Path) -> None:
    """Remove a directory that was made, unless another process mounts there, or something is in it."""
    if mount_at(path) is None:
        with _locked(path) as is_locked, suppress(OSError):
            if is_locked:
                path.rmdir()


def _is_dead(path: Path) -> bool:
    """True if a dead mount of kafkafs is there; raises `MountError` for another dead mount."""
    mount = mount_at(path)
    if mount is None or not mount.file_system_type.startswith("fuse"):
        return False
    is_ours = mount.file_system_type == FILE_SYSTEM_TYPE
    match answer_of(mount):
        case Answer.DEAD if is_ours:
            return True
        case Answer.DEAD:
            raise MountError(
                f"{path}: a dead mount of {mount.file_system_type} is here; take it away with `fusermount3 -u {path}`"
            )
        case Answer.SILENT:
            what_to_do = f"; `kafkafs umount --force {path}` ends it" if is_ours else ""
            raise MountError(f"{path}: {mount.source} is mounted here, and does not answer{what_to_do}")
        case Answer.ANSWERS:
            return False


def _make(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise _without_parent(path) from None
    except OSError as error:
        raise MountError(f"{path} does not exist and cannot be made: {error.strerror}") from None
    return True


def _without_parent(path: Path) -> MountError:
    return MountError(f"{path} cannot be made: its parent {path.parent} does not exist; make that first")


def _check_unmounted(path: Path) -> None:
    mount = mount_at(path)
    if mount is not None and mount.file_system_type == FILE_SYSTEM_TYPE:
        raise MountError(f"{path}: {mount.source} is mounted here already; `kafkafs umount {path}` takes it away")


def _check_empty(path: Path) -> None:
    _check_unmounted(path)
    if not path.is_dir():
        raise MountError(f"{path} is not a directory: a store is mounted at an empty one")
    try:
        is_empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise MountError(f"{path} cannot be looked into: {error.strerror}") from None
    if not is_empty:
        raise MountError(f"{path} is not empty: what is in it would be hidden; mount at an empty or a new directory")
