"""A mounted tree for each test that asks for one, and ways to wait that end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 20
TREE = Path(__file__).with_name("memory_tree.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker of a parallel run do all of them: a mount that is looked at just then cannot be taken away."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("mount"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run no test of a mount where there can be none; under CI that is a failure."""
    missing = not os.access("/dev/fuse", os.R_OK | os.W_OK)
    if missing and {"mounted", "mounting"} & set(getattr(item, "fixturenames", ())):
        reason = "no /dev/fuse that this user may open"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@dataclass
class Mounted:
    """A tree in memory that is mounted."""

    path: Path
    process: subprocess.Popen[str]
    log: Path

    def run(
        self, script: str, *, shell: str = "bash", timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in the mount, which ends if the script does not: nobody can kill who waits for an answer."""
        timer = threading.Timer(timeout_s, self.process.kill)
        timer.start()
        try:
            done = subprocess.run([shell, "-c", script], cwd=self.path, capture_output=True, text=True, check=False)
        finally:
            timer.cancel()
        return done

    @contextmanager
    def started(self, script: str) -> Iterator[subprocess.Popen[str]]:
        """Have a script running in the mount meanwhile."""
        process = subprocess.Popen(
            ["bash", "-c", script], cwd=self.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                process.wait(DEADLINE_S)
                raise
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def until(self, condition: Callable[[], bool], *, seconds: float = DEADLINE_S) -> None:
        """Return once it holds; it is asked again each time that a moment has passed."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"it did not come about in time: {self.said()}"
            select.select([], [], [], 0.01)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def said(self) -> str:
        return self.log.read_text()


@pytest.fixture
def mounting(tmp_path: Path) -> Iterator[Callable[..., Mounted]]:
    """Mount the tree with options, as often as a test likes; all is unmounted at the end."""
    found: list[Mounted] = []
    store = tmp_path / "store"
    store.mkdir()

    def mount(*options: str, at: str = "mnt") -> Mounted:
        path, log = tmp_path / at, tmp_path / f"{at}.log"
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, TREE, path, store, *options], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        mounted = Mounted(path, process, log)
        found.append(mounted)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", log.read_text()
        return mounted

    yield mount
    for mounted in found:
        if mounted.process.poll() is None:
            mounted.process.kill()
        mounted.process.wait(DEADLINE_S)
        assert mounted.process.stdout is not None
        mounted.process.stdout.close()
        subprocess.run(["fusermount3", "-u", "-z", "-q", mounted.path], stderr=subprocess.DEVNULL, check=False)


@pytest.fixture
def mounted(mounting: Callable[..., Mounted]) -> Mounted:
    """Mount the tree without options."""
    return mounting()
