"""Reading in every way that the system has, of every kind of file: the bytes are the same, and so is their number."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import select
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from system_call_trees import Trees

pytestmark = pytest.mark.e2e

FILES: Final = (
    "record",
    "unlisted record",
    "range",
    "stream",
    "fact",
    "raw segment",
    "twin",
    "text",
    "config",
    "start",
)
WRITTEN: Final = ("config", "start")
"""Without pages in the kernel, as descriptors of one inode must not see one another's bytes."""


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("kind", FILES)
class TestEachFile:
    def test_the_size_is_what_there_is_to_read(self, trees: Trees, kind: str) -> None:
        with opened(trees.path(kind)) as file:
            size = os.fstat(file).st_size
            assert size > 0
            data = b"".join(iter(lambda: os.read(file, 7), b""))
            assert len(data) == size
            assert os.read(file, 100) == b""
            assert os.lseek(file, 0, os.SEEK_CUR) == size

    def test_any_part_of_it(self, trees: Trees, kind: str) -> None:
        data = trees.path(kind).read_bytes()
        size = len(data)
        with opened(trees.path(kind)) as file:
            for position in (0, 1, size // 2, size - 1, size, size + 1, size + 4096, 1 << 40):
                assert os.pread(file, 5, position) == data[position : position + 5]
                assert os.pread(file, 1 << 20, position) == data[position:]
            parts = [bytearray(3), bytearray(size)]
            assert os.preadv(file, parts, 1) == size - 1
            assert bytes(parts[0] + parts[1])[: size - 1] == data[1:]
            with pytest.raises(OSError, match="Invalid argument"):
                os.pread(file, 5, -1)

    def test_seeking(self, trees: Trees, kind: str) -> None:
        with opened(trees.path(kind)) as file:
            size = os.fstat(file).st_size
            assert os.lseek(file, -1, os.SEEK_END) == size - 1
            assert len(os.read(file, 10)) == 1
            assert os.lseek(file, 0, os.SEEK_DATA) == 0
            assert os.lseek(file, 0, os.SEEK_HOLE) == size
            for whence in (os.SEEK_DATA, os.SEEK_HOLE):
                with pytest.raises(OSError, match=r".") as beyond:
                    os.lseek(file, size, whence)
                assert beyond.value.errno == errno.ENXIO
            with pytest.raises(OSError, match="Invalid argument"):
                os.lseek(file, -1, os.SEEK_SET)

    def test_maps(self, trees: Trees, kind: str) -> None:
        data = trees.path(kind).read_bytes()
        with opened(trees.path(kind)) as file:
            for sharing in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
                if sharing == mmap.MAP_SHARED and kind in WRITTEN:
                    with pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
                        mmap.mmap(file, len(data), sharing, mmap.PROT_READ)
                    continue
                with mmap.mmap(file, len(data), sharing, mmap.PROT_READ) as mapped:
                    assert mapped[:] == data
                    mapped.madvise(mmap.MADV_WILLNEED)
            with mmap.mmap(file, len(data), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
                mapped[0:1] = b"\xff"  # a copy of its own
            with pytest.raises(PermissionError):
                mmap.mmap(file, len(data), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        assert trees.path(kind).read_bytes() == data

    def test_copies_that_the_kernel_makes(self, trees: Trees, kind: str, tmp_path: Path) -> None:
        data = trees.path(kind).read_bytes()
        with opened(trees.path(kind)) as file, opened(tmp_path / "copy", os.O_RDWR | os.O_CREAT) as copy:
            sent = 0
            while count := os.sendfile(copy, file, sent, 1 << 20):
                sent += count
            assert (tmp_path / "copy").read_bytes() == data
            os.ftruncate(copy, 0)
            try:
                copied: int | None = os.copy_file_range(file, copy, len(data), 0, 0)
            except OSError as error:
                copied = len(data) if error.errno == errno.EXDEV else None  # then tools copy it themselves
            assert copied == len(data)
            reader, writer = os.pipe()
            spliced = os.splice(file, writer, 100, offset_src=0)
            assert os.read(reader, 1000) == data[:spliced]
            assert spliced > 0
            os.close(reader)
            os.close(writer)

    def test_ways_to_open(self, trees: Trees, kind: str) -> None:
        path = trees.path(kind)
        data = path.read_bytes()
        for flag in (os.O_DIRECT, os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CREAT, os.O_SYNC, os.O_CLOEXEC, os.O_NOATIME):
            with opened(path, os.O_RDONLY | flag) as file:
                assert os.pread(file, 1 << 20, 0) == data
        with opened(path, os.O_PATH) as held:
            assert os.fstat(held).st_ino == os.stat(path).st_ino
            with opened(f"/proc/self/fd/{held}") as file:  # type: ignore[arg-type]
                assert os.read(file, 1 << 20) == data
        for flags, number in (
            (os.O_RDONLY | os.O_CREAT | os.O_EXCL, errno.EEXIST),
            (os.O_RDONLY | os.O_DIRECTORY, errno.ENOTDIR),
        ):
            with pytest.raises(OSError, match=r".") as refused:
                os.open(path, flags)
            assert refused.value.errno == number

    def test_advice_and_waiting(self, trees: Trees, kind: str) -> None:
        with opened(trees.path(kind)) as file:
            for advice in (os.POSIX_FADV_WILLNEED, os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_DONTNEED):
                os.posix_fadvise(file, 0, 0, advice)
            assert select.select([file], [], [], 0)[0] == [file]
            for request in (termios.TCGETS, 0x80086601):
                with pytest.raises(OSError, match=r".") as refused:
                    fcntl.ioctl(file, request, bytes(64))
                assert refused.value.errno == errno.ENOTTY

    def test_a_descriptor_that_reads_does_nothing_else(self, trees: Trees, kind: str) -> None:
        with opened(trees.path(kind)) as file:
            for call in (
                lambda: os.write(file, b"x"),
                lambda: os.pwrite(file, b"x", 0),
                lambda: os.posix_fallocate(file, 0, 10),
            ):
                with pytest.raises(OSError, match=r".") as refused:
                    call()
                assert refused.value.errno == errno.EBADF
            with pytest.raises(OSError, match=r".") as refused:
                os.ftruncate(file, 0)
            assert refused.value.errno == errno.EINVAL


@pytest.mark.parametrize("kind", ["record", "stream", "raw segment", "append"])
def test_locks(trees: Trees, kind: str) -> None:
    path = trees.path(kind)
    with opened(path) as first, opened(path) as second:
        fcntl.flock(first, fcntl.LOCK_SH)
        fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(second, fcntl.LOCK_UN)
        fcntl.lockf(first, fcntl.LOCK_SH)
        fcntl.lockf(first, fcntl.LOCK_UN)
    if kind != "append":  # whose every open is a file of its own
        held = trees.writable.run(f"exec 3<{trees.kinds[kind]}; flock 3; flock -n {trees.kinds[kind]} echo taken")
        assert (held.returncode, held.stdout) == (1, "")


def test_relative_to_a_directory(trees: Trees) -> None:
    with opened(trees.path("partition"), os.O_RDONLY | os.O_DIRECTORY) as directory:
        with_record = os.open("offset/3", os.O_RDONLY, dir_fd=directory)
        assert os.read(with_record, 100) == b"value 4"
        os.close(with_record)
        assert os.stat("values", dir_fd=directory).st_ino == os.stat(trees.path("stream")).st_ino
        with pytest.raises(FileNotFoundError):
            os.stat("none", dir_fd=directory)
        before = os.open(".", os.O_RDONLY)
        try:
            os.fchdir(directory)
            assert os.getcwd() == str(trees.path("partition"))
            assert os.stat("offset/3").st_size == 7
        finally:
            os.fchdir(before)
            os.close(before)
        with pytest.raises(IsADirectoryError):
            os.read(directory, 10)
        with pytest.raises(IsADirectoryError):
            os.open(trees.path("partition"), os.O_WRONLY)


def test_extended_attributes(trees: Trees) -> None:
    path = trees.path("record")
    names = os.listxattr(path)
    assert {"user.kafka.key", "user.kafka.timestamp", "user.kafka.codec", "user.kafka.segment"} <= set(names)
    assert os.getxattr(path, "user.kafka.key") == b"key-4"
    for name in ("user.none", "trusted.none", "user.kafka.null"):
        with pytest.raises(OSError, match=r".") as missing:
            os.getxattr(path, name)
        assert missing.value.errno == errno.ENODATA
    for name in ("security.selinux", "system.posix_acl_access"):
        with pytest.raises(OSError, match=r".") as unknown:
            os.getxattr(path, name)
        assert unknown.value.errno == errno.EOPNOTSUPP
    asked = trees.writable.run(f"getfattr -h -d -m - {trees.kinds['record']} {trees.kinds['link']} orders")
    assert asked.returncode == 0
    assert 'user.kafka.key="key-4"' in asked.stdout


def test_buffers_that_are_too_small_for_attributes(trees: Trees) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    path = os.fsencode(trees.path("record"))
    size = libc.getxattr(path, b"user.kafka.key", None, 0)
    assert size == len(b"key-4")
    for call, arguments in ((libc.getxattr, (path, b"user.kafka.key")), (libc.listxattr, (path,))):
        assert call(*arguments, ctypes.create_string_buffer(2), 2) == -1
        assert ctypes.get_errno() == errno.ERANGE
