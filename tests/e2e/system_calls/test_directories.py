"""Directories: what they list is there and is what they say, from any position and while things change."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

import pytest
from mounts import store_mounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mounts import Mounted
    from system_call_trees import Trees

pytestmark = pytest.mark.e2e

DIRECTORIES: Final = ("root", "topic", "partition", "views", "segments", "control")
TYPES: Final = {4: stat.S_IFDIR, 8: stat.S_IFREG, 10: stat.S_IFLNK}
RECORDS_MANY: Final = 5000


class Entry(ctypes.Structure):
    """A `struct dirent` of Linux on 64 bits."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("position", ctypes.c_int64),
        ("size", ctypes.c_ushort),
        ("type", ctypes.c_ubyte),
        ("name", ctypes.c_char * 256),
    )


class OpenDirectory:
    """A directory stream of the C library."""

    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long

    def __init__(self, path: Path) -> None:
        self._stream = ctypes.c_void_p(self.libc.opendir(os.fsencode(path)))
        assert self._stream

    def read(self) -> tuple[str, int, int] | None:
        """The next name with its number and type; None at the end."""
        found = self.libc.readdir(self._stream)
        if found is None:
            return None
        entry = Entry.from_address(found)
        name = ctypes.string_at(found + Entry.name.offset)
        return os.fsdecode(name), entry.number, entry.type

    def rest(self) -> Iterator[tuple[str, int, int]]:
        while (entry := self.read()) is not None:
            yield entry

    def tell(self) -> int:
        return int(self.libc.telldir(self._stream))

    def seek(self, position: int) -> None:
        self.libc.seekdir(self._stream, ctypes.c_long(position))

    def rewind(self) -> None:
        self.libc.rewinddir(self._stream)

    def close(self) -> None:
        assert self.libc.closedir(self._stream) == 0


def walk(root: Path) -> Iterator[Path]:
    yield root
    for path, directories, _ in os.walk(root):
        yield from (root / path / name for name in directories)


def test_what_is_listed_is_what_is_found(trees: Trees) -> None:
    root = trees.writable.path
    seen = 0
    for directory in walk(root):
        entries = list(OpenDirectory(directory).rest())
        names = [name for name, _, _ in entries]
        assert len(names) == len(set(names))
        assert {".", ".."} <= set(names)
        for name, number, kind in entries:
            if (directory, name) == (root, ".."):
                continue  # that is outside
            found = os.lstat(directory / name)
            assert found.st_ino == number, directory / name
            assert kind == 0 or TYPES[kind] == stat.S_IFMT(found.st_mode), directory / name
            assert found.st_nlink == 1
            seen += 1
    assert seen > 100


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_numbers_stay_when_the_kernel_forgets(trees: Trees, kind: str) -> None:
    before = {entry.name: (entry.inode(), os.lstat(entry.path).st_ino) for entry in os.scandir(trees.path(kind))}
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        try:
            caches.write("2")
            caches.flush()
        except OSError as error:
            pytest.skip(f"this user cannot have the kernel forget: {error}")
    assert {each.name: (each.inode(), os.lstat(each.path).st_ino) for each in os.scandir(trees.path(kind))} == before


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_positions(trees: Trees, kind: str) -> None:
    directory = OpenDirectory(trees.path(kind))
    positions, entries = [], []
    while True:
        positions.append(directory.tell())
        entry = directory.read()
        if entry is None:
            break
        entries.append(entry)
    for i in (len(entries) - 1, 0, len(entries) // 2, 1):
        directory.seek(positions[i])
        assert list(directory.rest()) == entries[i:]
    directory.rewind()
    assert list(directory.rest()) == entries
    directory.close()


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """Mount a store of many records, for tests that change it."""
    directory = tmp_path_factory.mktemp("changing")
    with store_mounting(directory) as mount:
        mounted = mount(directory / "store", "-o", "list_limit=0,allow_delete")
        assert mounted.run(f"mkdir orders && seq {RECORDS_MANY} >> orders/0/append").returncode == 0
        yield mounted


def test_an_open_directory_lists_what_was_there(changing: Mounted) -> None:
    views = OpenDirectory(changing.path / "orders/0/offset")
    first = [views.read() for _ in range(10)]
    assert changing.run("seq 100 >> orders/0/append").returncode == 0
    rest = list(views.rest())
    names = [entry[0] for entry in [*first, *rest] if entry is not None]
    assert [name for name in names if name.isdigit()] == [str(number) for number in range(RECORDS_MANY)]
    views.rewind()
    names = [name for name, _, _ in views.rest()]
    assert len([name for name in names if name.isdigit()]) in {RECORDS_MANY, RECORDS_MANY + 100}
    views.close()


def test_topics_come_and_go_while_the_root_is_read(changing: Mounted) -> None:
    root = OpenDirectory(changing.path)
    assert root.read() is not None
    for number in range(20):
        os.mkdir(changing.path / f"topic-{number}")
    for number in range(0, 20, 2):
        os.rmdir(changing.path / f"topic-{number}")
    names = [name for name, _, _ in root.rest()]
    root.close()
    assert len(names) == len(set(names))
    assert {"orders", ".kafkafs"} <= set(names)
    listed = set(os.listdir(changing.path))
    assert listed == {"orders", ".kafkafs", "by-time", *(f"topic-{number}" for number in range(1, 20, 2))}


def test_a_directory_that_is_removed_while_it_is_open(changing: Mounted) -> None:
    os.mkdir(changing.path / "removed")
    held = os.open(changing.path / "removed", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir(changing.path / "removed")
    with pytest.raises(FileNotFoundError):
        os.stat(changing.path / "removed")
    with pytest.raises(OSError, match=r".") as gone:
        os.stat("0", dir_fd=held)
    assert gone.value.errno in {errno.ENOENT, errno.ESTALE}
    os.mkdir(changing.path / "removed")
    assert os.stat(changing.path / "removed/0").st_size == 0
    os.close(held)


REFUSED: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "a topic that is there": (lambda root: os.mkdir(root / "orders"), "EEXIST"),
    "a file that is there": (lambda root: os.mkdir(root / "orders/config"), "EEXIST"),
    "a name that is not listed": (lambda root: os.mkdir(root / "orders/0/offset/3.json"), "EEXIST"),
    "what looks the same to a broker": (
        lambda root: os.mkdir(root / "or.der_s") or os.mkdir(root / "or_der.s"),
        "EINVAL",
    ),
    "an illegal name": (lambda root: os.mkdir(root / "a b"), "EINVAL"),
    "bytes that are no text": (lambda root: os.mkdir(os.fsencode(root) + b"/\xff"), "EINVAL"),
    "a name of 250 bytes": (lambda root: os.mkdir(root / ("n" * 250)), "EINVAL"),
    "a partition that is not the next": (lambda root: os.mkdir(root / "orders/7"), "EINVAL"),
    "a partition by another spelling": (lambda root: os.mkdir(root / "orders/01"), "EINVAL"),
    "a directory in a partition": (lambda root: os.mkdir(root / "orders/0/new"), "EPERM"),
    "a directory in .kafkafs": (lambda root: os.mkdir(root / ".kafkafs/new"), "EPERM"),
    "to remove a partition": (lambda root: os.rmdir(root / "orders/0"), "EPERM"),
    "to remove a view": (lambda root: os.rmdir(root / "orders/0/offset"), "EPERM"),
    "to remove what is no topic": (lambda root: os.rmdir(root / "by-time"), "EPERM"),
    "to remove .kafkafs": (lambda root: os.rmdir(root / ".kafkafs"), "EPERM"),
    "to remove a file": (lambda root: os.rmdir(root / "orders/config"), "ENOTDIR"),
    "to remove what is not there": (lambda root: os.rmdir(root / "none"), "ENOENT"),
    "to remove the root": (os.rmdir, "EBUSY"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_making_and_removing(changing: Mounted, what: str) -> None:
    call, number = REFUSED[what]
    with pytest.raises(OSError, match=r".") as refused:
        call(changing.path)
    assert errno.errorcode[refused.value.errno or 0] == number


def test_longest_names_and_next_partitions(changing: Mounted) -> None:
    os.mkdir(changing.path / ("n" * 249))
    os.mkdir(changing.path / "orders/1")
    assert sorted(os.listdir(changing.path / "orders")) == ["0", "1", "config"]
    os.rmdir(changing.path / ("n" * 249))


def test_file_systems(trees: Trees) -> None:
    for kind in (*DIRECTORIES, "record", "stream"):
        found, real = os.statvfs(trees.path(kind)), os.statvfs(trees.scratch / "store")
        assert (found.f_bsize, found.f_blocks, found.f_namemax) == (real.f_bsize, real.f_blocks, 255)
        assert os.stat(trees.path(kind)).st_dev == os.stat(trees.writable.path).st_dev
    assert os.statvfs(trees.read_only.path).f_flag & os.ST_RDONLY
    assert not os.statvfs(trees.writable.path).f_flag & os.ST_RDONLY
