"""Processes that outlive the command that starts them, each known by the files that it leaves in a folder.

A process of the name `broker` that runs on a folder was told of `broker.properties` there; `broker.log` has everything
that it printed and, while it may be alive, `broker.pid` its id.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

START_TIME_S_MAX = 120
STOP_TIME_S_MAX = 60
PORTS = range(10_000, 30_000)
"""Below those that the system gives to clients."""


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that no process listens on now."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise FailedError("no loopback port is free")


@contextmanager
def started(folder: Path, name: str, command: Sequence[str], lifeline: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process; if the block fails, it is killed.

    With a lifeline it is killed as soon as that process is gone.
    """
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        (folder / f"{name}.pid").write_text(f"{process.pid}\n")
        if lifeline is not None:
            _tie(process.pid, lifeline)
        yield process
    except BaseException:
        process.kill()
        process.wait()
        (folder / f"{name}.pid").unlink(missing_ok=True)
        raise


def wait_for(process: subprocess.Popen[bytes], name: str, answers: Callable[[], bool]) -> None:
    """Return once the process answers; raise `FailedError` if it ends, or takes too long."""
    deadline = time.monotonic() + START_TIME_S_MAX
    while not answers():
        if process.poll() is not None:
            raise FailedError(f"the {name} ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise FailedError(f"the {name} does not answer within {START_TIME_S_MAX} s")
        time.sleep(0.05)


def end(folder: Path, name: str, how: signal.Signals) -> bool:
    """Signal the folder's process of that name, and wait until it is gone; say whether there was one."""
    pid = running(folder, name)
    if pid is not None:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(process, how)
                if not select.select([process], [], [], STOP_TIME_S_MAX)[0]:
                    raise FailedError(f"process {pid} is still there {STOP_TIME_S_MAX} s after {how.name}")
            finally:
                os.close(process)
    (folder / f"{name}.pid").unlink(missing_ok=True)
    return pid is not None


def running(folder: Path, name: str) -> int | None:
    """The id of the folder's process of that name, if it is alive; a number that another process bears is not."""
    try:
        pid = int((folder / f"{name}.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(folder / f"{name}.properties") in command.split(b"\0") else None


def _tie(pid: int, lifeline: int) -> None:
    """Start a guard that kills the process when the lifeline ends, and ends with it."""
    watched = os.pidfd_open(pid)
    if os.fork() != 0:
        os.close(watched)
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    try:
        # A lifeline that is gone already cannot be opened.
        with suppress(ProcessLookupError):
            if watched in select.select([watched, os.pidfd_open(lifeline)], [], [])[0]:
                os._exit(0)
        signal.pidfd_send_signal(watched, signal.SIGKILL)
    finally:
        os._exit(0)
