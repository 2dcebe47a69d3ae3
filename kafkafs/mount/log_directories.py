"""The log directories of a store, by paths that lead to them from every directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mounts import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_WRONG_USAGE: Final = 2


def resolved(paths: Sequence[Path]) -> list[Path]:
    """The paths without links and `..`; a directory that is to be made need not exist.

    Raises `MountError` for circular links and for a dangling link: a store would be made at a place that the user has
    not named.
    """
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
