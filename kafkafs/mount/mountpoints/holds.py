"""The places of a mount: its mount point, its bind mounts, and its copies in other mount name spaces.

The kernel ends a mount when the last of them is gone. Only root sees those in other users' name spaces.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.mount.mountpoints.answering import began_at, contents_of
from kafkafs.mount.mountpoints.mounts import FILE_SYSTEM_TYPE, mounts, pids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkafs.mount.mountpoints.mounts import Mount

_SHOWN_MAX = 10
_ROOT = Path("/")


class Holder(NamedTuple):
    """A process that represents another mount name space."""

    pid: int
    command: str
    namespace: str


class Hold(NamedTuple):
    """A place of a mount; `holder` is None in this process's own name space."""

    mount: Mount
    holder: Holder | None

    def __str__(self) -> str:
        if self.holder is None:
            return f"the mount at {self.mount.path}"
        pid, command, namespace = self.holder
        return f"{command} (process {pid}, mount name space {namespace}, at {self.mount.path})"


def holds() -> list[Hold]:
    """Return every place of a mount of kafkafs that this process may see."""
    found = []
    for holder, known in _name_spaces():
        found += [Hold(mount, holder) for mount in known if mount.file_system_type == FILE_SYSTEM_TYPE]
    return found


def holds_of(mount: Mount) -> list[Hold]:
    """Return the places of a live mount. Once it has ended another may get its device number."""
    wanted = (mount.device, mount.source)
    return [hold for hold in holds() if (hold.mount.device, hold.mount.source) == wanted]


def text_of(found: Sequence[Hold]) -> str:
    """The places, for people."""
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return f"{', '.join(map(str, found[:_SHOWN_MAX]))}{more}"


def elsewhere(hold: Hold, server: int | None) -> str:
    """Return where a mount of another mount name space is, for people."""
    assert hold.holder is not None
    by = "" if server is None else f" by process {server}"
    return f"mounted in mount name space {hold.holder.namespace}{by}"


def server_of(hold: Hold) -> int | None:
    """Return the process that serves a mount; None if it cannot be seen from here.

    The kernel gives the number of a connection that was aborted to another, even if the process that served it was
    stopped and has its descriptor still. So of several processes it is the one that began last.
    """
    found: list[tuple[int, int]] = []
    for pid in pids():
        with suppress(OSError, ValueError):
            numbers = [_connection(pid, descriptor) for descriptor in _fuse_descriptors(pid)]
            if hold.mount.device.partition(":")[2] in numbers:
                found.append((began_at(pid), pid))
    return max(found)[1] if found else _server_by_its_options(hold)


def is_from_here(server: int) -> bool:
    """True if a process runs in this process's mount name space, so that its mount was made here."""
    try:
        return _name_space(str(server)) == _name_space("self")
    except OSError:
        return False


def is_serving(pid: int) -> bool:
    """True if a process still serves a mount."""
    with suppress(OSError):
        return any(True for _ in _fuse_descriptors(pid))
    return False


def _name_spaces() -> Iterator[tuple[Holder | None, list[Mount]]]:
    """The mounts of each mount name space, this process's own first."""
    seen = {_name_space("self")}
    yield None, mounts()
    for pid in pids():
        with suppress(OSError):  # it has ended, or is another user's
            namespace = _name_space(str(pid))
            if namespace not in seen:
                known = mounts(pid)
                command = Path(f"/proc/{pid}/comm").read_text().strip()
                seen.add(namespace)
                yield Holder(pid, command, namespace.strip("mnt:[]")), known


def _name_space(process: str) -> str:
    return os.readlink(f"/proc/{process}/ns/mnt")  # noqa: PTH115 -- it is no path


def _fuse_descriptors(pid: int) -> Iterator[str]:
    """Yield the names of descriptors of the device; in a chroot another name space shows a longer path to it."""
    directory = Path(f"/proc/{pid}/fd")
    return (link.name for link in directory.iterdir() if os.readlink(link).endswith("/dev/fuse"))  # noqa: PTH115


def _connection(pid: int, descriptor: str) -> str | None:
    """The number of the kernel's connection, which is the minor number of the mount's device; kernels from 6.10."""
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("fuse_connection:"):
            return line.split()[1]
    return None


def _server_by_its_options(hold: Hold) -> int | None:
    """Return the process that the mount itself names, if its root can be seen and it answers."""
    mount, holder = hold
    if mount.root == _ROOT:
        seen = Path("/proc", "self" if holder is None else str(holder.pid), "root", mount.path.relative_to("/"))
        lines = contents_of(seen / ".kafkafs" / "options").split("\n")
        with suppress(ValueError, StopIteration):
            pid = int(next(line for line in lines if line.startswith("pid=")).removeprefix("pid="))
            if is_serving(pid):
                return pid
    return None
