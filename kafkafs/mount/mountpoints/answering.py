"""Asks in bounded time whether a mount answers: a stopped process never answers a question.

Only a signal ends such a question, so another process asks it, and is killed if there is no answer.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkafs.mount.mountpoints.mounts import mount_at

if TYPE_CHECKING:
    from kafkafs.mount.mountpoints.mounts import Mount

ANSWER_S: Final = 2
_KILLED_S: Final = 1
_BEGAN_AT: Final = 19
"""Which of the fields from the state on says when a process began: see proc_pid_stat(5)."""
# It reports its start, so that a slow start on a busy machine does not count as the mount's time.
_ASKING: Final = """
import os, sys
os.write(1, b"\\n")
try:
    {question}
except OSError as error:
    sys.exit(error.errno)
"""
_STATUS: Final = "os.statvfs(sys.argv[1])"  # the kernel remembers for a while what `stat` said
_CONTENTS: Final = "os.write(1, open(sys.argv[1], 'rb').read())"


class Answer(Enum):
    """The answer of a mount."""

    ANSWERS = "answers"
    DEAD = "dead"  # its process has gone
    SILENT = "silent"  # its process runs, and has not answered in time


def answer_of(mount: Mount, within_s: float = ANSWER_S) -> Answer:
    """Ask whether a mount is alive."""
    asked = _asked(_STATUS, mount.path, within_s)
    if asked is None:
        return Answer.SILENT
    return Answer.DEAD if asked[0] == errno.ENOTCONN else Answer.ANSWERS


def is_dead(path: Path) -> bool:
    """True if a FUSE mount is at a path whose process has ended."""
    mount = mount_at(path)
    return mount is not None and mount.file_system_type.startswith("fuse") and answer_of(mount) is Answer.DEAD


def contents_of(path: Path) -> str:
    """Return the contents of a small file in a mount; empty if it cannot be read in time."""
    asked = _asked(_CONTENTS, path, ANSWER_S)
    return "" if asked is None or asked[0] else asked[1].decode(errors="replace")


def is_stopped(pid: int) -> bool:
    """True if a process is stopped by a signal or by a debugger."""
    return _state_of(pid) in {"T", "t"}


def state_text(pid: int) -> str:
    """The state of a process, for people."""
    state = _state_of(pid)
    return f"stopped, state {state}" if state in {"T", "t"} else f"state {state or 'unknown'}"


def began_at(pid: int) -> int:
    """Return when a process began, in clock ticks since the system started; 0 if it has ended."""
    fields = _fields_of(pid)
    return int(fields[_BEGAN_AT]) if fields else 0


def _state_of(pid: int) -> str:
    """Return the letter that ps(1) shows; empty if the process has ended."""
    fields = _fields_of(pid)
    return fields[0] if fields else ""


def _fields_of(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _asked(question: str, path: Path, within_s: float) -> tuple[int, bytes] | None:
    """Return the exit code and the output of a process that asks; None without an answer in time."""
    command = [sys.executable, "-I", "-S", "-c", _ASKING.format(question=question), os.fspath(path)]
    process = subprocess.Popen(  # noqa: S603 -- our own command
        command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    with process.stdout as output:
        output.read(1)
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            _abandon(process)
            return None
        return process.returncode, output.read()


def _abandon(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    try:
        process.wait(_KILLED_S)
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it waits for the server, and ends when that does
