"""Processes of Java that run Kafka's tools one after another, since a tool takes less time than the start of Java."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ToolAnswer(NamedTuple):
    """What a tool printed, and its exit status."""

    status: int
    stdout: str
    stderr: str


class ToolProcesses:
    """Processes of one release, of which each runs one tool at a time; there are as many as tools run side by side."""

    def __init__(self, script: Path, version: str, time_s_max: float) -> None:
        self._command = [sys.executable, script, "tools", "--version", version]
        self._time_s_max = time_s_max
        self._idle: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def run(self, name: str, arguments: Sequence[str], stdin: str) -> ToolAnswer:
        """Run a tool; raise `subprocess.TimeoutExpired` if it takes too long."""
        with self._lock:
            process = self._idle.pop() if self._idle else self._started()
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(self._time_s_max, kill)
        timer.start()
        try:
            said = _asked(process, {"name": name, "arguments": arguments, "stdin": stdin})
        except BaseException:
            _end(process)
            raise
        finally:
            timer.cancel()
        if said is None:
            status = _end(process)
            if is_late.is_set():
                raise subprocess.TimeoutExpired([name, *arguments], self._time_s_max)
            raise AssertionError(f"the process that runs Kafka's tools ended with status {status} during {name}")
        with self._lock:
            self._idle.append(process)
        return ToolAnswer(**said)

    def _started(self) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
        return subprocess.Popen(self._command, **pipes)

    def close(self) -> None:
        """End the processes."""
        while self._idle:
            _end(self._idle.pop())


def _asked(process: subprocess.Popen[str], call: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a call; nothing if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return json.loads(line) if line else None


def _end(process: subprocess.Popen[str]) -> int:
    """Kill a process, and return its exit status."""
    process.kill()
    with process:
        return process.wait()
