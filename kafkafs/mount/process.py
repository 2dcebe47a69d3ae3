"""The serving process: how it starts, what it reports and to whom, and how a signal ends it.

A mount that stays when its command returns is served by a fresh process, which reports to the command once it answers,
or why it does not. There is no fork: it has none of its parent's threads, locks or terminal.

A serving process reports to systemd too, by the protocol of sd_notify. It sends its last word, how its store was
closed, to those who unmounted: they connect before they unmount, and get the word once the store is closed, without a
thread or a file. A killed process sends no word. Every user who could see the mount may read it.

Ending signals are exceptions, so that a process first undoes what it has begun.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Self

from kafkafs.allocation import with_malloc
from kafkafs.mount.errors import MountError
from kafkafs.mount.log import make_directory, opened
from kafkafs.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from typing import BinaryIO, TextIO

REPORT_VARIABLE: Final = "KAFKAFS_REPORT_DESCRIPTOR"
LOG_VARIABLE: Final = "KAFKAFS_LOG_FILE"
_STORE_VARIABLE: Final = "KAFKAFS_STORE"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")

_BACKLOG: Final = 16
_WORD_BYTES_MAX: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("iii")  # pid, uid, gid


class EndingSignal(BaseException):
    """A signal that asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def taking_effect_afterwards(numbers: Sequence[int]) -> Iterator[None]:
    """Make each of these signals raise `EndingSignal` in the block, and take its usual effect after it.

    A signal that is ignored, as SIGHUP under nohup(1), stays ignored. Only the main thread may call this.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    taken = {number: handler for number, handler in before.items() if handler not in {signal.SIG_IGN, None}}
    try:
        try:
            for number in taken:
                signal.signal(number, _raise)
            yield
        finally:
            for number, handler in taken.items():
                signal.signal(number, handler)
    except EndingSignal as ending:
        signal.raise_signal(ending.number)
        raise SystemExit(128 + ending.number) from None  # it had a handler, which has returned


def _raise(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise EndingSignal(number)


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
        make_directory(path.parent)
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
    environment = {**with_malloc(os.environ), REPORT_VARIABLE: str(writer)}
    environment.pop(_STORE_VARIABLE, None)  # the command names the store itself
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
    return Path(os.devnull).open("ab") if log is None else os.fdopen(opened(log), "ab")


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


def tell_ready(status: str) -> None:
    """Report that the mount has started."""
    _tell("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")


def tell_status(status: str) -> None:
    """Report what it is doing, for `systemctl status`."""
    _tell(f"STATUS={status}")


def tell_stopping() -> None:
    """Report that it is ending."""
    _tell("STOPPING=1", "STATUS=closing the store")


def _tell(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # an abstract socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
        notify.sendto("\n".join(map(one_line, lines)).encode(errors="replace"), address)


class Parting:
    """The serving side. `word` is sent at the end; it is empty if nothing failed."""

    def __init__(self) -> None:
        self.word = ""


@contextmanager
def parting() -> Iterator[Parting]:
    """Accept connections in the block, and send the word at its end."""
    said = Parting()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as listener:
        with suppress(OSError):
            listener.bind(_address(os.getpid()))
            listener.listen(_BACKLOG)
        try:
            yield said
        finally:
            with suppress(OSError):  # the serving process is gone, or could not connect
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.send(said.word.encode(errors="replace")[:_WORD_BYTES_MAX] or b"\n")


class Awaited:
    """The side that unmounts: connected to a process from before it ends."""

    def __init__(self, pid: int | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._is_connected = False
        if pid is not None:
            with suppress(OSError):
                self._socket.connect(_address(pid))
                credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                self._is_connected = _CREDENTIALS.unpack(credentials)[0] == pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def word(self) -> str:
        """Return the word, once the process has ended; empty if there was none."""
        with suppress(OSError):
            if self._is_connected:
                return self._socket.recv(_WORD_BYTES_MAX).decode(errors="replace").strip()
        return ""


def _address(pid: int) -> bytes:
    return b"\0kafkafs.%d" % pid  # abstract: it goes with the process
