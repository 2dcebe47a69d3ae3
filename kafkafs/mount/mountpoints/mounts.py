"""The kernel's mounts, their serving processes and their users, from /proc."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_SYSTEM_TYPE: Final = "fuse.kafkafs"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_USES: Final = ("cwd", "root", "exe")
_LINKS_MAX: Final = 40  # as for the kernel


class Mount(NamedTuple):
    """A mount; the last one at a path hides the others."""

    path: Path
    file_system_type: str
    source: str
    device: str  # major:minor
    root: Path  # of the mount, within its file system


def mounts(pid: int | None = None) -> list[Mount]:
    """Every mount of this process's name space, or another's, in the order in which they were made."""
    process = "self" if pid is None else str(pid)
    return mounts_in(Path(f"/proc/{process}/mountinfo").read_bytes())


def mounts_in(mountinfo: bytes) -> list[Mount]:
    """The mounts that a `mountinfo` of the kernel lists. Of the characters that end a line only `\\n` does so there."""
    return [_mount(line) for line in os.fsdecode(mountinfo).split("\n") if line]


def mount_at(path: Path) -> Mount | None:
    """Return the mount at exactly the place that a path leads to."""
    place = place_of(path)
    return next((mount for mount in reversed(mounts()) if mount.path == place), None)


def place_of(path: Path) -> Path:
    """The path without links and `..`, as the kernel follows them; nothing need exist.

    No mount of kafkafs is asked, since one whose process is stopped would never answer: below its mount point the path
    is taken literally.
    """
    untouched = {mount.path for mount in mounts() if mount.file_system_type == FILE_SYSTEM_TYPE}
    place, links = Path("/"), 0
    coming = list(reversed(path.absolute().parts[1:]))
    while coming:
        part = coming.pop()
        if part == "..":
            place = place.parent
            continue
        place /= part
        target = None if untouched.intersection((place, *place.parents)) else _target_of(place)
        if target is not None:
            links += 1
            if links > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            place = Path("/") if target.is_absolute() else place.parent
            coming += reversed([each for each in target.parts if each != "/"])
    return place


def _target_of(path: Path) -> Path | None:
    """Return the target of a link; None if there is no link."""
    try:
        return path.readlink()
    except OSError:
        return None


def _mount(line: str) -> Mount:
    fields, _, rest = line.partition(" - ")
    columns = fields.split(" ")
    file_system_type, source, *_ = rest.split(" ")
    root, path = Path(_unescaped(columns[3])), Path(_unescaped(columns[4]))
    return Mount(path, file_system_type, _unescaped(source), columns[2], root)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


class Use(NamedTuple):
    """A process that has a file of a mount open, or is in it."""

    pid: int
    command: str
    path: str


def uses_of(path: Path) -> list[Use]:
    """Return the visible processes that use a mount, each with one of the files that it uses."""
    inside = str(place_of(path))
    found = (_use(pid, inside) for pid in pids())
    return [use for use in found if use is not None]


def pids() -> Iterator[int]:
    """The processes that there are."""
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208


def _use(pid: int, inside: str) -> Use | None:
    process = Path("/proc", str(pid))
    for link in _links(process):
        with suppress(OSError):
            target = str(link.readlink())
            if target == inside or target.startswith(f"{inside}/"):
                return Use(pid, (process / "comm").read_text().strip(), target)
    return None


def _links(process: Path) -> Iterator[Path]:
    for directory in ("fd", "map_files"):
        with suppress(OSError):
            yield from (process / directory).iterdir()
    yield from (process / name for name in _USES)
