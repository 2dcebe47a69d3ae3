"""Taking a mount away, by root and by others, and waiting until its process has closed the store."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mounts import FILE_SYSTEM_TYPE, is_dead, mount_at, uses_of

_DETACH: Final = 2  # MNT_DETACH
_SHOWN_USES_MAX: Final = 10
_CLOSING_S: Final = 600


def unmount(path: Path, *, is_forced: bool) -> None:
    """Take away the mount at a path and return when its store is closed.

    Raises `MountError`, and leaves it, if it is used. By force it goes all the same, and who uses it gets ENOTCONN.
    """
    mount = mount_at(path)
    if mount is None or mount.file_system_type != FILE_SYSTEM_TYPE:
        raise MountError(f"{path}: nothing of kafkafs is mounted here; `findmnt -t {FILE_SYSTEM_TYPE}` lists what is")
    if is_dead(path):
        detach(path)
        return
    server = _server(path)
    if is_forced:
        _end(path, server)
    else:
        _unmount(path)
    if server is not None:
        _wait(path, server)


def detach(path: Path) -> None:
    """Take away a mount at once, whoever uses it."""
    if not _system_unmount(path, _DETACH):
        _fusermount("-u", "-z", "--", str(path))


def _unmount(path: Path) -> None:
    try:
        if not _system_unmount(path, 0):
            _fusermount("-u", "--", str(path))
    except (OSError, MountError):
        uses = uses_of(path)
        if not uses:
            raise
        # This process has inherited what its shell has open, and is worth naming only where it is the only one.
        uses = [use for use in uses if use.pid != os.getpid()] or uses
        shown = [f"{use.command} (process {use.pid}, {use.path})" for use in uses[:_SHOWN_USES_MAX]]
        more = f" and {len(uses) - len(shown)} more" if len(uses) > len(shown) else ""
        raise MountError(
            f"{path} is in use by {', '.join(shown)}{more}: end these, or unmount it with --force"
        ) from None


def _end(path: Path, server: int | None) -> None:
    if server is None:
        detach(path)
        return
    try:
        os.kill(server, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise MountError(f"{path} is served by process {server}, which is another user's: be root to end it") from None


def _system_unmount(path: Path, flags: int) -> bool:
    """Unmount as root does; False if this process may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(path), flags | 8) == 0:  # 8: UMOUNT_NOFOLLOW
        return True
    number = ctypes.get_errno()
    if number == errno.EPERM:
        return False
    raise OSError(number, os.strerror(number), str(path))


def _fusermount(*arguments: str) -> None:
    program = shutil.which("fusermount3")
    if program is None:
        raise MountError("fusermount3 is missing, which unmounts for users other than root: install the package fuse3")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise MountError(" ".join(done.stderr.split()).removeprefix("fusermount3: "))


def _server(path: Path) -> int | None:
    """The process that serves a mount, as the mount itself says; None if that is not this name space's."""
    with suppress(OSError, ValueError):
        lines = (path / ".kafkafs" / "options").read_text().splitlines()
        pid = int(next(line for line in lines if line.startswith("pid=")).removeprefix("pid="))
        descriptors = Path("/proc", str(pid), "fd")
        if any(os.readlink(link) == "/dev/fuse" for link in descriptors.iterdir()):  # noqa: PTH115
            return pid
    return None


def _wait(path: Path, pid: int) -> None:
    """Return when the process has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(_CLOSING_S * 1000):
            raise MountError(
                f"{path} is unmounted, but process {pid} has not closed its store for {_CLOSING_S} seconds"
            )
    finally:
        os.close(process)
