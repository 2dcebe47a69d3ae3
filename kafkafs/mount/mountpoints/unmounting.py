"""Unmounting, by root and by others, and waiting until the process has closed the store."""

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
from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError, NotMountedError
from kafkafs.mount.mountpoints.answering import Answer, answer_of, is_dead, is_stopped, state_text
from kafkafs.mount.mountpoints.holds import (
    Hold,
    elsewhere,
    holds,
    holds_of,
    is_from_here,
    is_serving,
    server_of,
    text_of,
)
from kafkafs.mount.mountpoints.mounts import FILE_SYSTEM_TYPE, mount_at, place_of, uses_of
from kafkafs.mount.process import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkafs.mount.mountpoints.mounts import Mount

_FORCE: Final = 1  # MNT_FORCE
_DETACH: Final = 2  # MNT_DETACH
_CONNECTIONS: Final = Path("/sys/fs/fuse/connections")
_SHOWN_USES_MAX: Final = 10
_SOON_S: Final = 2
"""How long a process has to begin closing its store before a message says what keeps it."""
_PATIENCE_S: Final = 30
"""How long a running process has to answer before it is left alone."""
_CONTINUED_S: Final = 10
"""How long a silent process has to end by itself before its mount is detached."""
_QUIET_S: Final = 5
_CLOSING_S: Final = 600


def unmount(path: Path, *, is_forced: bool, say: Callable[[str], None] = lambda sentence: None) -> None:  # noqa: ARG005
    """Unmount the mount at a path and return when its store is closed.

    Raises `MountError`, and leaves it, if it is in use or its process does not answer. By force it is ended all the
    same, and its users get ENOTCONN. Where a bind mount or another mount name space has a copy of it, only force ends
    it: otherwise it is detached here, and `MountError` says who holds it. It also raises if the store was not closed
    properly. `say` is told what is waited for, and what force does.
    """
    mount = mount_at(path)
    if mount is None or mount.file_system_type != FILE_SYSTEM_TYPE:
        _end_elsewhere(path, is_forced=is_forced, say=say)
        return
    server = server_of(Hold(mount, None))
    answer = _answer(path, mount, server, say, is_forced=is_forced)
    if answer is Answer.DEAD:
        detach(mount.path)
        return
    with Awaited(server) as awaited:
        if answer is Answer.SILENT:
            if not is_forced:
                raise MountError(_silent(path, server))
            _end_silent(path, mount, server, say)
        elif is_forced:
            _end(path, mount, server)
            if server is not None and not _has_ended(server, _CONTINUED_S) and is_serving(server):
                _abort_connection(path, mount, server, say)
        else:
            _unmount(path, mount)
            _check_gone(path, mount, server)
        _wait(path, mount, server, say)
        word = awaited.word()
    if word:
        raise MountError(f"{path} is unmounted, but {word}")


def _end_elsewhere(path: Path, *, is_forced: bool, say: Callable[[str], None]) -> None:
    """End a mount that was detached from a path here and that other name spaces still see there.

    A mount that was made in another name space is left alone, though it is at the same path.
    """
    place = place_of(path)
    here = {(hold.mount.device, hold.mount.source) for hold in holds() if hold.holder is None}
    found = [hold for hold in holds() if hold.holder is not None and hold.mount.path == place]
    if not found:
        raise NotMountedError(
            f"{path}: nothing of kafkafs is mounted here; `findmnt -t {FILE_SYSTEM_TYPE}` lists what is"
        )
    servers = {hold: server_of(hold) for hold in found}
    left = {
        hold: server
        for hold, server in servers.items()
        if server is not None and is_from_here(server) and (hold.mount.device, hold.mount.source) not in here
    }
    if not left:
        raise NotMountedError(f"{path} is {elsewhere(found[0], servers[found[0]])}, not here: unmount it there")
    if not is_forced:
        raise MountError(_held(path, list(left)))
    for hold, server in left.items():
        if is_stopped(server):
            _end_silent(path, hold.mount, server, say)
        else:
            _end(path, hold.mount, server)
        _await_end(path, server, say)


def _answer(path: Path, mount: Mount, server: int | None, say: Callable[[str], None], *, is_forced: bool) -> Answer:
    """Ask the mount; a process that is only busy is given time, or ended by force without being asked."""
    if server is not None and is_stopped(server):
        return Answer.SILENT
    if is_forced and server is not None:
        return Answer.ANSWERS
    answer = answer_of(mount)
    if answer is Answer.SILENT and server is not None and not is_stopped(server):
        say(f"waiting for process {server}, which serves {path} and has not answered yet ({state_text(server)})")
        answer = answer_of(mount, _PATIENCE_S)
    return answer


def _silent(path: Path, server: int | None) -> str:
    force = f"`kafkafs umount --force {path}`"
    if server is None:
        return f"{path} does not answer, and its process cannot be seen from here: end it with {force}"
    what_to_do = f"continue it with `kill -CONT {server}`" if is_stopped(server) else "try again later"
    return (
        f"process {server}, which serves {path}, does not answer ({state_text(server)}): "
        f"{what_to_do}, or end it with {force}"
    )


def _end_silent(path: Path, mount: Mount, server: int | None, say: Callable[[str], None]) -> None:
    """End a mount whose process does not answer: the process if it can be woken, the mount in any case."""
    if server is not None:
        state = state_text(server)
        say(f"process {server}, which serves {path}, does not answer ({state}): it gets SIGTERM and SIGCONT")
        _end(path, mount, server)
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGCONT)
        if _has_ended(server, _CONTINUED_S) or not is_serving(server):
            return
    _abort_connection(path, mount, server, say)


def _abort_connection(path: Path, mount: Mount, server: int | None, say: Callable[[str], None]) -> None:
    """Abort the connection of a process that a signal does not end, and detach the mount."""
    if server is not None:
        say(f"process {server} still serves {path} after {_CONTINUED_S} seconds: its FUSE connection is aborted")
    else:
        say(f"{path} does not answer, and its process cannot be seen from here: its FUSE connection is aborted")
    _abort(mount)
    say(f"{path} is detached")
    with suppress(OSError, MountError):  # an aborted mount may have been taken away by its process
        detach(mount.path)


def _abort(mount: Mount) -> None:
    """Abort the connection: the kernel answers all waiting and later requests with an error."""
    try:
        (_CONNECTIONS / mount.device.partition(":")[2] / "abort").write_text("1")
    except OSError:  # the directory of connections need not be mounted, and root can do without
        with suppress(OSError):
            _system_unmount(mount.path, _FORCE)


def _check_gone(path: Path, mount: Mount, server: int | None) -> None:
    """Raise `MountError` if a copy of the detached mount keeps its store open."""
    if server is not None and _has_ended(server, _SOON_S):
        return
    if server is not None and not is_serving(server):
        return  # nothing holds it any more, and its process is closing the store
    found = holds_of(mount)
    if found:
        raise MountError(_held(path, found))
    if server is not None and os.geteuid() != 0:
        raise MountError(
            f"{path} is detached here, but process {server} still serves it, in a mount name space that this user may "
            "not look into: have root look, or end it with SIGTERM"
        )


def _held(path: Path, found: Sequence[Hold]) -> str:
    return (
        f"{path} is detached here, but still held by {text_of(found)}, so its store stays open: "
        f"unmount it there, or end it with `kafkafs umount --force {found[0].mount.path}`"
    )


def detach(path: Path) -> None:
    """Detach a mount at once, even if it is in use."""
    if not _system_unmount(path, _DETACH):
        _fusermount("-u", "-z", "--", str(path))


def _unmount(path: Path, mount: Mount) -> None:
    try:
        if not _system_unmount(mount.path, 0):
            _fusermount("-u", "--", str(mount.path))
    except (OSError, MountError):
        uses = uses_of(mount.path)
        if not uses:
            raise
        # This process has inherited its shell's files, and is named only if it is the only user.
        uses = [use for use in uses if use.pid != os.getpid()] or uses
        shown = [f"{use.command} (process {use.pid}, {use.path})" for use in uses[:_SHOWN_USES_MAX]]
        more = f" and {len(uses) - len(shown)} more" if len(uses) > len(shown) else ""
        raise MountError(
            f"{path} is in use by {', '.join(shown)}{more}: end these, or unmount it with --force"
        ) from None


def _end(path: Path, mount: Mount, server: int | None) -> None:
    if server is None:
        detach(mount.path)
        return
    try:
        os.kill(server, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise MountError(f"{path} is served by process {server}, which is another user's: be root to end it") from None


def _system_unmount(path: Path, flags: int) -> bool:
    """Unmount by the system call; False if this process may not."""
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


def _wait(path: Path, mount: Mount, server: int | None, say: Callable[[str], None]) -> None:
    """Return when the process has ended, and detach what it leaves in this name space."""
    if server is not None:
        _await_end(path, server, say)
        for hold in holds_of(mount):
            if hold.holder is None and is_dead(hold.mount.path):
                with suppress(OSError, MountError):
                    detach(hold.mount.path)


def _await_end(path: Path, pid: int, say: Callable[[str], None]) -> None:
    if _has_ended(pid, _QUIET_S):
        return
    say(f"waiting until process {pid} has closed the store of {path} ({state_text(pid)})")
    for _ in range(_CLOSING_S // _QUIET_S):
        if is_stopped(pid):
            raise MountError(
                f"{path} is unmounted, but process {pid} has not closed its store and is stopped: "
                f"continue it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`"
            )
        if _has_ended(pid, _QUIET_S):
            return
    raise MountError(f"{path} is unmounted, but process {pid} has not closed its store for {_CLOSING_S} seconds")


def _has_ended(pid: int, within_s: float) -> bool:
    """True if a process ends in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(within_s * 1000))
    finally:
        os.close(process)
