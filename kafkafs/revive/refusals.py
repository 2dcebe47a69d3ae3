"""What is refused of the log directories that a revival is to make, by where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import BuildError
from storage.log_dir import BACKUPS_NAME, home_of, places_above

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkafs.revive.disks import Disk
    from storage.files import Directory, Files


def check_apart(files: Files, disks: Sequence[Disk], targets: Sequence[Path]) -> None:
    """Raise `BuildError` if a new log directory lies in a source or in a directory of backups, or a source in it."""
    sources = _by_identity([disk.directory for disk in disks])
    for target in targets:
        source = home_of(files, target, sources)
        if source is not None:
            reason = f"the new store would lie in {source}, which is only read; give a directory outside of it"
            raise BuildError(reason, path=target)
        own = _by_identity([files.directory(target)])
        for disk in disks:
            if home_of(files, Path(disk.directory), own) is not None:
                raise BuildError(
                    f"{disk.directory} lies in it, which is only read; give another directory", path=target
                )
        for place in places_above(files, target):
            if place.directory.status(BACKUPS_NAME) is not None:
                reason = (
                    f"the new store would lie in the directory of backups {place.directory}; give one outside of it"
                )
                raise BuildError(reason, path=target)


def _by_identity(directories: Sequence[Directory]) -> Mapping[tuple[int, int], Directory]:
    found = {}
    for directory in directories:
        status = directory.own_status()
        if status is not None:
            found[status.identity] = directory
    return found
