"""The directory that a store is mounted at: made if it is missing, healed if a dead mount is there, looked at first."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mounts import FILE_SYSTEM_TYPE, is_dead, mount_at
from kafkafs.mount.unmounting import detach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log: Final = logging.getLogger("kafkafs.mount")


@contextmanager
def mount_point(path: Path, store: Sequence[Path]) -> Iterator[Path]:
    """Have an empty directory to mount at meanwhile; afterwards one that was made for this is gone again.

    Raises `MountError` if something is there, or if it is in the store.
    """
    _heal(path)
    _check_apart(path, store)
    is_made = _make(path)
    try:
        _check_empty(path)
        yield path.resolve()
    finally:
        if is_made:
            with suppress(OSError):
                path.rmdir()


def _heal(path: Path) -> None:
    if not is_dead(path):
        return
    mount = mount_at(path)
    if mount is not None and mount.file_system_type != FILE_SYSTEM_TYPE:
        raise MountError(
            f"{path}: a dead mount of {mount.file_system_type} is here; take it away with `fusermount3 -u {path}`"
        )
    detach(path)
    log.warning("%s: a mount whose process had died was taken away", path)


def _check_apart(path: Path, store: Sequence[Path]) -> None:
    place = path.resolve()
    for directory in store:
        if place.is_relative_to(directory.resolve()):
            raise MountError(f"{path} is in the store itself ({directory}): mount it elsewhere")


def _make(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise MountError(
            f"neither {path} nor {path.parent}, which it would be made in, exists; make that first"
        ) from None
    except OSError as error:
        raise MountError(f"{path} does not exist and cannot be made: {error.strerror}") from None
    return True


def _check_empty(path: Path) -> None:
    mount = mount_at(path.resolve())
    if mount is not None and mount.file_system_type == FILE_SYSTEM_TYPE:
        raise MountError(f"{path}: {mount.source} is mounted here already; `kafkafs umount {path}` takes it away")
    if not path.is_dir():
        raise MountError(f"{path} is not a directory: a store is mounted at an empty one")
    try:
        is_empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise MountError(f"{path} cannot be looked into: {error.strerror}") from None
    if not is_empty:
        raise MountError(f"{path} is not empty: what is in it would be hidden; mount at an empty or a new directory")
