"""What is mounted where, which process serves it and who uses it, as the kernel says in /proc."""

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


class Mount(NamedTuple):
    """A mount; the last one at a path is the one that is seen."""

    path: Path
    file_system_type: str
    source: str
    device: str  # major:minor


def mounts() -> list[Mount]:
    """Every mount of this process's name space, in the order in which they were made."""
    return [_mount(line) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def mount_at(path: Path) -> Mount | None:
    """What is mounted at exactly this path."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 -- a dead mount cannot be resolved
    return next((mount for mount in reversed(mounts()) if mount.path == absolute), None)


def is_dead(path: Path) -> bool:
    """Whether a FUSE mount is here whose process has gone."""
    try:
        os.statvfs(path)  # the kernel remembers for a while what `stat` said
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def _mount(line: str) -> Mount:
    fields, _, rest = line.partition(" - ")
    columns = fields.split(" ")
    file_system_type, source, *_ = rest.split(" ")
    return Mount(Path(_unescaped(columns[4])), file_system_type, _unescaped(source), columns[2])


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


class Use(NamedTuple):
    """A process that has something of a mount open, or is in it."""

    pid: int
    command: str
    path: str


def uses_of(path: Path) -> list[Use]:
    """The processes that use a mount, as far as this one may look at them, each with one of the files that it uses."""
    inside = f"{os.path.abspath(path)}"  # noqa: PTH100 -- looking into a mount may hang
    found = (_use(pid, inside) for pid in _pids())
    return [use for use in found if use is not None]


def _pids() -> Iterator[int]:
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
