"""A mount is asked for so long and no longer, and what its process does meanwhile is told."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.answering import Answer, answer_of, contents_of, is_dead, is_stopped, state_text
from kafkafs.mount.mountpoints.mounts import mount_at
from kafkafs.mount.mountpoints.unmounting import unmount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted


@pytest.fixture
def stopped(mounted: Mounted) -> Iterator[Mounted]:
    """Mount the tree, and stop the process that serves it for as long as the test takes."""
    mounted.process.send_signal(signal.SIGSTOP)
    mounted.until(lambda: is_stopped(mounted.process.pid))
    yield mounted
    mounted.process.send_signal(signal.SIGCONT)


def test_one_that_is_stopped_is_silent_and_not_dead(stopped: Mounted) -> None:
    mount = mount_at(stopped.path)
    assert mount is not None
    assert answer_of(mount, 0.1) is Answer.SILENT
    assert state_text(stopped.process.pid) == "stopped, state T"
    assert not is_dead(stopped.path)
    assert contents_of(stopped.path / ".kafkafs" / "metrics") == ""


def test_the_process_that_asked_is_gone(stopped: Mounted) -> None:
    mount = mount_at(stopped.path)
    assert mount is not None
    before = _children(os.getpid())
    answer_of(mount, 0.1)
    assert _children(os.getpid()) <= before


def test_one_that_answers_and_one_that_is_dead(mounted: Mounted) -> None:
    mount = mount_at(mounted.path)
    assert mount is not None
    assert answer_of(mount) is Answer.ANSWERS
    assert "kafkafs_requests_total" in contents_of(mounted.path / ".kafkafs" / "metrics")
    mounted.end(signal.SIGKILL)
    assert answer_of(mount) is Answer.DEAD
    assert is_dead(mounted.path)


def test_umount_leaves_one_that_is_stopped(stopped: Mounted) -> None:
    pid = stopped.process.pid
    with pytest.raises(MountError) as refused:
        unmount(stopped.path, is_forced=False)
    assert str(refused.value) == (
        f"process {pid}, which serves {stopped.path}, does not answer (stopped, state T): continue it with "
        f"`kill -CONT {pid}`, or end it with `kafkafs umount --force {stopped.path}`"
    )
    assert mount_at(stopped.path) is not None
    said: list[str] = []
    unmount(stopped.path, is_forced=True, say=said.append)
    assert said == [
        f"process {pid}, which serves {stopped.path}, does not answer (stopped, state T): it gets SIGTERM and SIGCONT"
    ]
    assert stopped.process.wait(DEADLINE_S) == 0
    assert mount_at(stopped.path) is None


def test_force_asks_no_process_that_runs(mounted: Mounted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy one answers as late as it likes, and the time that it has to end is short."""
    asked: list[object] = []
    monkeypatch.setattr("kafkafs.mount.mountpoints.unmounting.answer_of", asked.append)
    unmount(mounted.path, is_forced=True)
    assert mounted.process.wait(DEADLINE_S) == 0
    assert mount_at(mounted.path) is None
    assert asked == []


def test_a_process_that_has_gone_has_no_state() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert state_text(process.pid) == "state unknown"
    assert not is_stopped(process.pid)


def _children(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("the kernel does not tell a process's children")
    return set(map(int, children.read_text().split()))
