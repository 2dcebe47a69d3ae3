"""Checks that a store and its mount point lie apart: neither is in the other, by any route.

A process that meets its own mount below a path of its own waits for itself, and every user of the mount for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.mount.errors import MountError
from kafkafs.mount.log_directories import followed
from kafkafs.mount.mounts import mounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkafs.mount.mounts import Mount


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
