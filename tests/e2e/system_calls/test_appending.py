"""Descriptors of what is appended to: every flag and every call that writes, and those that mean nothing to a log."""

from __future__ import annotations

import errno
import os
import select
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    """Mount a new store with a topic."""
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir orders").returncode == 0
    return mounted


def values(mounted: Mounted) -> bytes:
    return (mounted.path / "orders/0/values").read_bytes()


def refused(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError, match=r".") as error:
        call()
    assert errno.errorcode[error.value.errno or 0] == errno.errorcode[number]


def test_every_flag(mounted: Mounted) -> None:
    flags = [0, os.O_APPEND, os.O_CREAT, os.O_TRUNC, os.O_SYNC, os.O_DSYNC, os.O_NONBLOCK, os.O_NOFOLLOW, os.O_DIRECT]
    flags += [os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_SYNC]
    for mode in (os.O_WRONLY, os.O_RDWR):
        for i, flag in enumerate(flags):
            descriptor = os.open(mounted.path / "orders/0/append", mode | flag, 0o644)
            assert os.write(descriptor, b"%d %d\n" % (mode, i)) == 4
            os.close(descriptor)
    wanted = [b"%d %d" % (mode, i) for mode in (os.O_WRONLY, os.O_RDWR) for i in range(len(flags))]
    assert values(mounted).splitlines() == wanted


def test_every_call_that_writes(mounted: Mounted, tmp_path: Path) -> None:
    descriptor = os.open(mounted.path / "orders/0/append", os.O_WRONLY)
    assert os.write(descriptor, b"") == 0
    assert os.writev(descriptor, [b"wri", b"tev\n", b"two\n"]) == 11
    reader, writer = os.pipe()
    os.write(writer, b"spliced\n")
    assert os.splice(reader, descriptor, 100) == 8
    (tmp_path / "sent").write_bytes(b"sent\n")
    sent = os.open(tmp_path / "sent", os.O_RDONLY)
    assert os.sendfile(descriptor, sent, 0, 5) == 5
    for each in (descriptor, reader, writer, sent):
        os.close(each)
    assert values(mounted) == b"writev\ntwo\nspliced\nsent\n"


def test_positions_mean_nothing(mounted: Mounted) -> None:
    descriptor = os.open(mounted.path / "orders/0/append", os.O_RDWR)
    for call in (
        lambda: os.lseek(descriptor, 0, os.SEEK_SET),
        lambda: os.lseek(descriptor, 0, os.SEEK_CUR),
        lambda: os.pwrite(descriptor, b"x\n", 0),
        lambda: os.pread(descriptor, 1, 0),
        lambda: os.posix_fallocate(descriptor, 0, 100),
    ):
        refused(errno.ESPIPE, call)
    os.ftruncate(descriptor, 0)
    refused(errno.EPERM, lambda: os.ftruncate(descriptor, 100))
    assert os.write(descriptor, b"x\n") == 2
    assert os.fstat(descriptor).st_size == 0
    assert select.select([descriptor], [descriptor], [], 0)[:2] == ([descriptor], [descriptor])
    assert os.read(descriptor, 100) == b"0..0\n"
    assert os.read(descriptor, 100) == b""
    os.close(descriptor)
    os.truncate(mounted.path / "orders/0/append", 0)
    assert values(mounted) == b"x\n"


def test_descriptors_that_are_one(mounted: Mounted) -> None:
    first = os.open(mounted.path / "orders/0/append", os.O_RDWR)
    second = os.dup(first)
    os.write(first, b"a\n")
    assert os.read(second, 100) == b"0..0\n"
    os.write(second, b"b")
    os.close(second)  # a flush, which ends the line
    os.write(first, b"c\n")
    assert os.read(first, 100) == b"1..1\n2..2\n"
    inherited = os.fork()
    if inherited == 0:
        os.write(first, b"d\n")
        os._exit(0)
    os.waitpid(inherited, 0)
    assert os.read(first, 100) == b"3..3\n"
    os.close(first)
    assert values(mounted) == b"a\nb\nc\nd\n"


def test_fsync_and_what_is_in_progress(mounted: Mounted) -> None:
    descriptor = os.open(mounted.path / "orders/0/append", os.O_WRONLY)
    os.write(descriptor, b"half")
    assert values(mounted) == b""
    os.fsync(descriptor)
    assert values(mounted) == b"half\n"
    os.write(descriptor, b"other")
    os.fdatasync(descriptor)
    os.fdatasync(descriptor)
    assert values(mounted) == b"half\nother\n"
    os.close(descriptor)
    for path in ("orders/0/values", "orders/0/offset/1", "orders/0", "orders", "."):
        descriptor = os.open(mounted.path / path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def test_threads_that_share_a_descriptor(mounted: Mounted) -> None:
    descriptor = os.open(mounted.path / "orders/0/append", os.O_WRONLY)

    def write(number: int) -> None:
        for i in range(200):
            os.write(descriptor, b"%d:%d\n" % (number, i))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    lines = values(mounted).splitlines()
    assert len(lines) == 1200
    for number in range(6):
        mine = [line for line in lines if line.startswith(b"%d:" % number)]
        assert mine == [b"%d:%d" % (number, i) for i in range(200)]


def test_an_open_file_outlives_its_name(mounted: Mounted) -> None:
    for i in range(3):
        assert mounted.run(f"echo {i} >> orders/0/append").returncode == 0
    removed = os.open(mounted.path / "orders/0/offset/0", os.O_RDONLY)
    stream = os.open(mounted.path / "orders/0/values", os.O_RDONLY)
    assert os.read(removed, 100) == b"0"
    assert os.read(stream, 100) == b"0\n1\n2\n"
    assert mounted.run("echo 2 > orders/0/log-start-offset").returncode == 0
    mounted.until(lambda: not (mounted.path / "orders/0/offset/0").exists())
    assert os.fstat(removed).st_size == 1
    assert (mounted.path / "orders/0/values").read_bytes() == b"2\n"
    assert mounted.run("echo 3 >> orders/0/append").returncode == 0
    assert os.read(stream, 100) == b"3\n"
    assert os.pread(stream, 100, 4) == b"2\n3\n"
    os.close(removed)
    os.close(stream)
