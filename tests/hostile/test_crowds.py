"""Many readers of many hostile partitions: a sound topic is answered all the while, and the mount gets rid of them."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hostile import readers
from hostile.crowd import CROWD_PREFIX, crowded_store
from mounts import store_mounting

from storage.budget import MEMORY

from .conftest import IS_PROOF, SCALE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

PARTITIONS, READERS, LOOKS_S = (200, 40, 60.0) if IS_PROOF else (34, 8, 1.0)
P99_S = 0.1 if IS_PROOF else 2.0  # beside other tests nothing is measured
MEMORY_BESIDE_BYTES = 200 * 10**6
MEMORY_LEFT_BYTES = 100 * 2**20
UNMOUNTING_S = 5.0


@contextmanager
def crowd(mount: Path) -> Iterator[subprocess.Popen[str]]:
    """Have the hostile topics read during the block."""
    command = [sys.executable, "-P", readers.__file__, str(mount), CROWD_PREFIX, str(READERS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"{PARTITIONS} topics\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def look(mount: Path, number: int) -> Iterator[float]:
    """Yield how long `ls`, `stat` and `cat` in the sound topic took."""
    topic = mount / "sound"
    record = topic / "0" / "offset" / str(number % 60)
    for call in (lambda: list(topic.iterdir()), record.stat, record.read_bytes):
        started = time.monotonic()
        call()
        yield time.monotonic() - started


def memory_bytes(process: int, kind: str = "VmRSS") -> int:
    """Return what a process has in memory, or of the kind `VmHWM` the most that it has had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def test_a_sound_topic_is_answered_beside_them(tmp_path: Path) -> None:
    store = crowded_store(tmp_path, PARTITIONS, SCALE)
    with store_mounting(tmp_path) as mount:
        mounted = mount(store.path, "-o", "rw")
        list(look(mounted.path, 0))
        before = memory_bytes(mounted.process.pid)
        with crowd(mounted.path):
            end = time.monotonic() + LOOKS_S
            took = []
            while time.monotonic() < end:
                took += look(mounted.path, len(took))
        took.sort()
        p99 = took[len(took) * 99 // 100]
        median, longest = took[len(took) // 2], took[-1]
        peak = memory_bytes(mounted.process.pid, "VmHWM")
        print(f"{len(took)} looks: median {median:.4f} s, p99 {p99:.4f} s, longest {longest:.4f} s; {peak >> 20} MiB")
        assert p99 < P99_S
        assert peak < MEMORY.limit_bytes + MEMORY_BESIDE_BYTES
        most = before + MEMORY_LEFT_BYTES
        mounted.until(lambda: memory_bytes(mounted.process.pid) < most)
        assert "Traceback" not in mounted.said()
        assert mounted.end() == 0


def test_an_unmount_by_force_ends_it(tmp_path: Path) -> None:
    store = crowded_store(tmp_path, PARTITIONS, SCALE)
    with store_mounting(tmp_path) as mount:
        mounted = mount(store.path, "-o", "rw")
        with crowd(mounted.path):
            for number in range(20):
                list(look(mounted.path, number))
            started = time.monotonic()
            command = [sys.executable, "-P", "-m", "kafkafs", "umount", "--force", str(mounted.path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            took_s = time.monotonic() - started
        assert done.returncode == 0, done.stderr
        assert took_s < UNMOUNTING_S
        mounted.process.wait(UNMOUNTING_S)
        assert not mounted.path.is_mount()
