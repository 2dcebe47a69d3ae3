"""Locks: `flock` and `fcntl` exclude across all descriptors of a path that is written, as on any other file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

APPENDED = ["append", "append.jsonl", "append.kv", "append.raw", "append.batch"]
WRITABLE = [*(f"orders/0/{name}" for name in (*APPENDED, "log-start-offset")), "orders/config"]
TAKEN, FREE = 9, 0

FCNTL = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(9)
"""


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    """Mount a new store with a topic."""
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir orders").returncode == 0
    return mounted


def flocked(path: Path | str) -> int:
    """Try to have the lock in another process, as `flock FILE COMMAND` takes it."""
    return subprocess.run(["flock", "-n", "-E", str(TAKEN), path, "true"], check=False).returncode


def locked(path: Path | str) -> int:
    """Try to have the record lock in another process."""
    return subprocess.run([sys.executable, "-c", FCNTL, path], check=False).returncode


@pytest.mark.parametrize("path", WRITABLE)
def test_flock_excludes_every_descriptor_of_a_path(mounted: Mounted, path: str) -> None:
    file = mounted.path / path
    reader, writer = os.open(file, os.O_RDONLY), os.open(file, os.O_WRONLY)
    fcntl.flock(reader, fcntl.LOCK_EX)
    assert flocked(file) == TAKEN
    with pytest.raises(BlockingIOError):
        fcntl.flock(writer, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(reader, fcntl.LOCK_SH)
    fcntl.flock(writer, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert flocked(file) == TAKEN
    os.close(writer)
    os.close(reader)
    assert flocked(file) == FREE


@pytest.mark.parametrize("path", WRITABLE)
def test_fcntl_excludes_every_process(mounted: Mounted, path: str) -> None:
    file = mounted.path / path
    descriptor = os.open(file, os.O_RDWR)
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    assert locked(file) == TAKEN
    fcntl.lockf(descriptor, fcntl.LOCK_UN)
    assert locked(file) == FREE
    os.close(descriptor)


def test_other_paths_have_locks_of_their_own(mounted: Mounted) -> None:
    assert mounted.run("mkdir orders/1").returncode == 0
    descriptor = os.open(mounted.path / "orders/0/append", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    for other in ("orders/1/append", "orders/0/append.kv", "orders/config"):
        assert (flocked(mounted.path / other), locked(mounted.path / other)) == (FREE, FREE)
    os.close(descriptor)


def test_a_lock_outlives_what_the_kernel_forgets(mounted: Mounted) -> None:
    file = mounted.path / "orders/0/append"
    descriptor = os.open(file, os.O_WRONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for _ in range(50):
        os.stat(file)
        os.close(os.open(file, os.O_RDONLY))
    os.listdir(mounted.path / "orders/0")
    if os.geteuid() == 0:
        mounted.run("echo 2 > /proc/sys/vm/drop_caches")
    assert os.write(descriptor, b"x\n") == 2
    assert flocked(file) == TAKEN
    os.close(descriptor)
    assert flocked(file) == FREE


def test_the_idiom_of_cron(mounted: Mounted) -> None:
    script = """
flock orders/0/append sh -c 'echo begun > ../begun; read -r line < ../go; echo $line >> orders/0/append' &
until [ -e ../begun ]; do :; done
flock -n orders/0/append sh -c 'echo second >> orders/0/append' || echo refused
flock orders/0/append sh -c 'echo third >> orders/0/append' &
echo first > ../go
wait
cat orders/0/values
"""
    assert mounted.run(f"mkfifo ../go; {script}").stdout == "refused\nfirst\nthird\n"


def test_shells_that_lock_write_runs_of_lines(mounted: Mounted) -> None:
    script = """
for w in 1 2 3 4; do
  for i in 1 2 3 4 5; do
    (flock 9; for line in a b c; do echo "$w:$i:$line" >&9; done) 9>> orders/0/append
  done &
done
wait
cat orders/0/values
"""
    lines = mounted.run(script).stdout.splitlines()
    runs = [lines[i : i + 3] for i in range(0, len(lines), 3)]
    assert len(runs) == 20
    assert all([line[-1] for line in run] == ["a", "b", "c"] for run in runs)
    assert all(len({line[:-1] for line in run}) == 1 for run in runs)


def test_a_bind_mount_shows_the_same_file(mounted: Mounted, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = f"""
mount --bind {mounted.path}/orders {tmp_path}/elsewhere || exit 77
flock {mounted.path}/orders/0/append flock -n -E 9 {tmp_path}/elsewhere/0/append true
"""
    done = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or done.returncode == 77:
        pytest.skip(f"this user cannot bind a mount in a name space of his own: {done.stderr.strip()}")
    assert done.returncode == TAKEN, done.stderr


def test_a_read_only_mount_has_locks_too(
    mounted: Mounted, store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    shown = store_mounts(tmp_path / "store", "-o", "ro", at="shown")
    descriptor = os.open(shown.path / "orders/0/append", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert flocked(shown.path / "orders/0/append") == TAKEN
    assert flocked(mounted.path / "orders/0/append") == FREE
    os.close(descriptor)


def test_descriptors_of_a_path_still_share_nothing_else(mounted: Mounted) -> None:
    first, second = (os.open(mounted.path / "orders/0/append", os.O_RDWR) for _ in range(2))
    os.write(first, b"one, ")
    os.write(second, b"two\n")
    os.write(first, b"in two writes\n")
    assert (os.read(second, 100), os.read(first, 100)) == (b"0..0\n", b"1..1\n")
    os.close(first)
    os.close(second)
    before = os.open(mounted.path / "orders/config", os.O_RDONLY)
    old = os.pread(before, 1 << 20, 0)
    assert mounted.run("echo retention.ms=123456789 >> orders/config").returncode == 0
    after = os.open(mounted.path / "orders/config", os.O_RDONLY)
    new = os.pread(after, 1 << 20, 0)
    assert b"retention.ms=123456789 " in new
    assert os.fstat(after).st_size == os.stat(mounted.path / "orders/config").st_size == len(new)
    assert os.pread(before, 1 << 20, 0) == old != new
    os.close(before)
    os.close(after)
