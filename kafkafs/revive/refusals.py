"""Where the log directories of a revival may not lie, and where no file of a source can be linked to."""

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


def unlinked(files: Files, disks: Sequence[Disk], targets: Sequence[Path]) -> list[str]:
    """Return a sentence for each source on another file system than a new log directory: its files are copied."""
    devices = {next(places_above(files, target)).identity[0]: target for target in targets}
    found = []
    for disk in disks:
        status = disk.directory.own_status()
        for device, target in devices.items():
            if status is not None and status.identity[0] != device:
                found.append(
                    f"--link links nothing of {disk.directory} into {target}, which is on another file system: "
                    "files are copied"
                )
    return found


def _by_identity(directories: Sequence[Directory]) -> Mapping[tuple[int, int], Directory]:
    found = {}
    for directory in directories:
        status = directory.own_status()
        if status is not None:
            found[status.identity] = directory
    return found
