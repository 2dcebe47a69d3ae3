"""The places of a store and of its mount point: where their paths lead, and that they lie apart.

Neither may be in the other, by any route: a process that meets its own mount below a path of its own waits for itself,
and every user of the mount for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.mounts import mounts, place_of
from storage.files import absolute_path, is_in_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkafs.mount.mountpoints.mounts import Mount

_WRONG_USAGE: Final = 2


def resolved(paths: Sequence[Path]) -> list[Path]:
    """The paths without links and `..`; a directory that is to be made need not exist.

    Raises `MountError` for circular links and for a dangling link: a store would be made at a place that the user has
    not named. So it does for an object store: a mount takes locks, looks twice a second, and answers at a disk's pace.
    """
    for path in paths:
        if is_in_object_store(path):
            raise MountError(
                f"{absolute_path(path)} is in an object store, which is not mounted: read it with `kafkafs cat` and "
                "`kafkafs spark`, or copy it to a directory and mount that"
            )
    return [_resolved(path) for path in paths]


def followed(path: Path) -> Path:
    """Return where a path leads; raises `MountError` for circular links."""
    try:
        return place_of(path)
    except OSError as error:
        raise MountError(f"{path}: {error.strerror}", exit_code=_WRONG_USAGE) from None


def _resolved(path: Path) -> Path:
    place = followed(path)
    if path.is_symlink() and not place.exists():
        raise MountError(
            f"{path} is a link to {place}, which does not exist: make that directory first, or remove the link",
            exit_code=_WRONG_USAGE,
        )
    return place


def check_apart(mount_point: Path, store: Sequence[Path], kept: Mapping[str, Path]) -> None:
    """Raise `MountError` if the mount point is in the store, or would hide the store or anything that is `kept`.

    `kept` has the other paths that the serving process opens, by their names in messages. Links, `..` and bind mounts
    are followed; nothing need exist.
    """
    known = mounts()
    place = _place(mount_point, known)
    for directory in store:
        if _is_within(place, _place(directory, known)):
            raise MountError(f"{mount_point} is in the store itself ({directory}): mount it elsewhere")
        if _is_within(_place(directory, known), place):
            raise MountError(f"{mount_point} would hide the store, which is in it ({directory}): mount it elsewhere")
    for what, path in kept.items():
        if _is_within(_place(path, known), place):
            raise MountError(f"{mount_point} would hide {what}, which is in it ({path}): mount it elsewhere")


def _place(path: Path, known: Sequence[Mount]) -> tuple[str, Path]:
    """Return a path's file system and its place there, which are the same through all mounts of it."""
    resolved = followed(path)
    holding = None
    for mount in known:  # the deepest holds it and, of several at one path, the last
        if resolved.is_relative_to(mount.path) and (holding is None or mount.path.is_relative_to(holding.path)):
            holding = mount
    if holding is None:  # in a chroot that is no mount of its own
        return "", resolved
    return holding.device, holding.root / resolved.relative_to(holding.path)


def _is_within(inner: tuple[str, Path], outer: tuple[str, Path]) -> bool:
    return inner[0] == outer[0] and inner[1].is_relative_to(outer[1])
