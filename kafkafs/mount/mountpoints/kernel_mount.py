"""Mounting through libfuse. Its refusals become one sentence that says what to do."""

from __future__ import annotations

import logging
import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyfuse3

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.mount_point import claimed
from kafkafs.mount.mountpoints.mounts import mount_at
from kafkafs.mount.pyfuse3_internals import check_pyfuse3

if TYPE_CHECKING:
    from collections.abc import Iterator

log: Final = logging.getLogger("kafkafs.mount")

READ_AHEAD_KB: Final = 1024

_REASONS: Final = (
    (
        r"device not found|failed to open /dev/fuse: No such (file|device)|modprobe fuse",
        (
            "there is no /dev/fuse: run `modprobe fuse` as root, or give the container the device; "
            "`kafkafs ls` and `kafkafs cat` work without it"
        ),
    ),
    (
        r"failed to open /dev/fuse: Permission denied",
        "/dev/fuse may not be opened by this user: run it as root, or have root run `chmod 666 /dev/fuse`",
    ),
    (
        r"allow_other only allowed if",
        "the option allow_other is not for every user: have root add a line `user_allow_other` to /etc/fuse.conf",
    ),
    (
        r"fusermount3?: (command )?not found|exec.*fusermount|fuse: failed to exec fusermount",
        "fusermount3 is missing, which mounts for users other than root: install the package fuse3",
    ),
    (
        r"too many FUSE filesystems mounted",
        "there are as many FUSE mounts as users may have: have root raise mount_max in /etc/fuse.conf",
    ),
    (
        r"failed to access mountpoint|bad mount point",
        "this user cannot get to the mount point: choose one in a directory that he may enter",
    ),
    (r"user has no write access to mountpoint", "this user may not write to the mount point: choose one of his own"),
    (
        r"Operation not permitted|Permission denied",
        "this user may not mount: run it as root, or where fusermount3 is setuid and new privileges are allowed",
    ),
)


@contextmanager
def mounted(operations: pyfuse3.Operations, path: Path, options: set[str]) -> Iterator[None]:
    """Mount it in the block, and detach it afterwards even if it is in use. Raises `MountError`."""
    check_pyfuse3()
    with claimed(path), _watched_to_the_last(), _standard_error_kept() as text:
        try:
            pyfuse3.init(operations, str(path), options)
            reason = None
        except RuntimeError as error:
            reason = str(error)
    said = text.decode(errors="replace").strip()
    if reason is not None:
        raise MountError(f"{path}: {sentence_for(said or reason)}")
    if said:
        log.warning("libfuse: %s", " ".join(said.split()))
    try:
        yield
    finally:
        pyfuse3.close(unmount=True)


def sentence_for(said: str) -> str:
    """Return what to do about a message of libfuse, or the message if it is unknown."""
    for pattern, sentence in _REASONS:
        if re.search(pattern, said):
            return sentence
    return f"it cannot be mounted: {' '.join(said.split())}"


@contextmanager
def _watched_to_the_last() -> Iterator[None]:
    """Make the fusermount3 of `auto_unmount`, if one is started in the block, notice this process's death late enough.

    Its socket closes, then it checks the mount, and removes it only if the kernel knows it to be dead. The kernel
    closes a dead process's descriptors from the last one back to the first, so the socket gets one from before the
    mount's own.
    """
    first = os.open(os.devnull, os.O_RDONLY)
    before = _sockets()
    try:
        yield
        for descriptor in _sockets() - before:
            os.dup2(descriptor, first, inheritable=False)
            os.close(descriptor)
            return
    except BaseException:
        os.close(first)
        raise
    os.close(first)


def _sockets() -> set[int]:
    """Return the descriptors of this process that are sockets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 -- names are all that is wanted
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.add(int(name))
    return found


@contextmanager
def _standard_error_kept() -> Iterator[bytearray]:
    """Capture standard error in the block: libfuse and fusermount3 print their reasons nowhere else."""
    text = bytearray()
    saved = os.dup(2)
    kept = os.memfd_create("libfuse")
    os.dup2(kept, 2)
    try:
        yield text
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.lseek(kept, 0, os.SEEK_SET)
        with os.fdopen(kept, "rb") as file:
            text += file.read()


def read_ahead(path: Path) -> None:
    """Make the kernel read streams ahead in large requests, if this user may. Call it once the mount answers."""
    mount = mount_at(path)
    if mount is None:
        return
    with suppress(OSError):
        Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb").write_text(f"{READ_AHEAD_KB}\n")
