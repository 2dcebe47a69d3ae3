"""A mount that stays when its command returns: a fresh process that reports once it answers, or why it does not.

There is no fork: the process that serves has none of its parent's threads, locks or terminal.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkafs.mount.ending_signals import taking_effect_afterwards
from kafkafs.mount.errors import MountError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, TextIO

REPORT_VARIABLE: Final = "KAFKAFS_REPORT_DESCRIPTOR"
LOG_VARIABLE: Final = "KAFKAFS_LOG_FILE"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Report:
    """How the serving process reports to the one that started it, if one did."""

    def __init__(self) -> None:
        number = os.environ.pop(REPORT_VARIABLE, "")
        self._descriptor: int | None = int(number) if number else None
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, False)  # or children of libfuse would keep the other side waiting

    @property
    def is_awaited(self) -> bool:
        """True if a process waits for the report."""
        return self._descriptor is not None

    def doing(self, what: str) -> None:
        """Report what takes time."""
        self._say({"doing": what})

    def ready(self) -> bool:
        """Report that the mount answers; False if the waiting process has ended. This is the last report."""
        return self._end({"ready": True})

    def failed(self, sentence: str) -> None:
        """Report why there is no mount. This is the last report."""
        self._end({"failed": sentence})

    def _say(self, message: dict[str, object]) -> bool:
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, f"{json.dumps(message)}\n".encode())
            except BrokenPipeError:
                return False
        return True

    def _end(self, message: dict[str, object]) -> bool:
        is_heard = self._say(message)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        return is_heard


def log_path(mount_point: Path) -> Path:
    """Return where a background mount writes its log: for root in /var/log, for others in their state directory."""
    if os.geteuid() == 0:
        directory = Path("/var/log/kafkafs")
    else:
        directory = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kafkafs"
    name = _ODD.sub("-", str(mount_point.absolute())).strip("-")[-200:]
    return directory / f"{name or 'root'}.log"


def log_file(mount_point: Path) -> Path | None:
    """Return the same, and make its directory; None if that fails."""
    path = log_path(mount_point)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path


def start(command: Sequence[str], log: Path | None, *, doing: Callable[[str], None]) -> None:
    """Start a process and return when it reports that the mount answers; raises `MountError` with its reason if not.

    `doing` is told what takes time. An interrupt, SIGTERM or SIGHUP ends the process first.
    """
    with taking_effect_afterwards(_ENDING):
        _start(command, log, doing)


def _start(command: Sequence[str], log: Path | None, doing: Callable[[str], None]) -> None:
    reader, writer = os.pipe()
    environment = {**os.environ, REPORT_VARIABLE: str(writer)}
    if log is not None:
        environment[LOG_VARIABLE] = str(log)
    try:
        with _opened(log) as output:
            process = subprocess.Popen(  # noqa: S603 -- our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                pass_fds=(writer,),
                start_new_session=True,
            )
    finally:
        os.close(writer)
    try:
        with os.fdopen(reader, encoding="utf-8") as reports:
            failure = _await_report(reports, doing)
    except BaseException:
        process.terminate()
        process.wait()  # it unmounts and closes the store
        raise
    if failure is None:
        process.returncode = 0  # it stays after this process
        return
    process.wait()
    where = "" if log is None else f"; its log is {log}"
    if failure:
        raise MountError(failure, exit_code=process.returncode)
    raise MountError(f"the mount ended before it answered (exit code {process.returncode}){where}")


def _opened(log: Path | None) -> BinaryIO:
    return Path(os.devnull if log is None else log).open("ab")


def _await_report(reports: TextIO, doing: Callable[[str], None]) -> str | None:
    """Return None when it is ready, otherwise the reason, which is empty if it ended without one."""
    for line in reports:
        message = json.loads(line)
        if "ready" in message:
            return None
        if "failed" in message:
            return str(message["failed"])
        doing(str(message["doing"]))
    return ""


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs this kafkafs with these arguments."""
    return [sys.executable, "-P", "-m", "kafkafs", *arguments]
