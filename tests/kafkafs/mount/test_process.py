"""A process that is started in the background reports once it is ready, or why it is not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.process import (
    REPORT_VARIABLE,
    Report,
    log_file,
    start,
    taking_effect_afterwards,
    tell_ready,
    tell_stopping,
)

if TYPE_CHECKING:
    from pathlib import Path

REPORTING = "from kafkafs.mount.process import Report; report = Report(); report.doing('this'); "


def run(tmp_path: Path, code: str) -> tuple[list[str], str]:
    doing: list[str] = []
    log = tmp_path / "log"
    start([sys.executable, "-P", "-c", REPORTING + code], log, doing=doing.append)
    return doing, log.read_text()


def test_it_returns_when_the_other_is_ready_and_leaves_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os; open({str(pid)!r}, 'w').write(str(os.getpid())); report.ready()"
    doing, _ = run(tmp_path, code)
    assert doing == ["this"]
    assert int(pid.read_text()) != os.getpid()


def test_it_says_why_the_other_is_not(tmp_path: Path) -> None:
    with pytest.raises(MountError, match=r"^the reason$"):
        run(tmp_path, "report.failed('the reason')")


def test_it_says_where_the_log_is_of_one_that_could_not_say_why(tmp_path: Path) -> None:
    with pytest.raises(MountError, match=r"ended before it answered \(exit code 3\); its log is .*log$"):
        run(tmp_path, "print('a trace', flush=True); raise SystemExit(3)")
    assert (tmp_path / "log").read_text() == "a trace\n"


def test_who_reports_knows_whether_it_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_there in (True, False):
        reader, writer = os.pipe()
        monkeypatch.setenv(REPORT_VARIABLE, str(writer))
        report = Report()
        if not is_there:
            os.close(reader)
        report.doing("this")
        assert report.ready() is is_there
        assert not report.is_awaited
        if is_there:
            os.close(reader)
    assert Report().ready()  # no process waited from the beginning


STARTING = """
import sys
from pathlib import Path
from kafkafs.mount.process import start
start([sys.executable, "-P", "-c", sys.argv[1]], Path(sys.argv[2]), doing=lambda what: print(what, flush=True))
"""
UNDOING = """
import os, signal
from kafkafs.mount.process import Report
from kafkafs.mount.process import taking_effect_afterwards
report = Report()
with taking_effect_afterwards([signal.SIGTERM]):
    try:
        report.doing("begun")
        signal.pause()
    finally:
        os.write(1, b"undone\\n")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_who_waits_ends_the_other_first(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-P", "-c", STARTING, UNDOING, tmp_path / "log"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "begun\n"
        waiting.send_signal(number)
        try:
            assert waiting.wait(20) == -number
        finally:
            waiting.kill()  # the block waits for it
    assert (tmp_path / "log").read_text() == "undone\n"


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with taking_effect_afterwards([signal.SIGHUP]):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_logs_are_told_apart_by_their_mount_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert log_file(tmp_path / "a b") == tmp_path / "kafkafs" / f"{str(tmp_path).strip('/').replace('/', '-')}-a-b.log"


def test_a_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        tell_ready("here")
        tell_stopping()
        assert manager.recv(1000).decode().splitlines() == ["READY=1", "STATUS=here", f"MAINPID={os.getpid()}"]
        assert manager.recv(1000).startswith(b"STOPPING=1\n")
