"""Paths that lead nowhere, are too long, go through files or round in circles, in every call that takes a path."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from system_call_trees import Trees

pytestmark = pytest.mark.e2e

NAME_BYTES_MAX: Final = 255
PATH_BYTES_MAX: Final = 4095

CALLS: Final[dict[str, Callable[[bytes], object]]] = {
    "stat": os.stat,
    "lstat": os.lstat,
    "open": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "open to write": lambda path: os.close(os.open(path, os.O_WRONLY)),
    "opendir": os.listdir,
    "readlink": os.readlink,
    "chdir": os.chdir,
    "statfs": os.statvfs,
    "chmod": lambda path: os.chmod(path, 0o600),
    "chown": lambda path: os.chown(path, 12, 12),
    "utimensat": lambda path: os.utime(path, (1, 1)),
    "truncate": lambda path: os.truncate(path, 0),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "rename": lambda path: os.rename(path, path + b"x"),
    "getxattr": lambda path: os.getxattr(path, b"user.a"),
    "listxattr": os.listxattr,
    "setxattr": lambda path: os.setxattr(path, b"user.a", b""),
}
MAKING: Final[dict[str, Callable[[bytes], object]]] = {
    "create": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": os.mknod,
    "symlink": lambda path: os.symlink(b"target", path),
    "link": lambda path: os.link(path.partition(b"/mnt")[0] + b"/mnt/orders/config", path),
}
EVERY: Final = {**CALLS, **MAKING}


def number_of(call: Callable[[bytes], object], path: bytes) -> str | None:
    try:
        call(path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


@pytest.mark.parametrize("name", EVERY)
def test_what_is_in_the_way(trees: Trees, name: str) -> None:
    call, root = EVERY[name], os.fsencode(trees.writable.path)
    through = (trees.kinds[kind] for kind in ("record", "range", "stream", "raw segment", "append", "link", "config"))
    for path in through:
        assert number_of(call, b"%s/%s/name" % (root, path.encode())) == "ENOTDIR", path
        assert number_of(call, b"%s/%s/" % (root, path.encode())) in {"ENOTDIR", "EEXIST", "EISDIR"}, path
    for path in (b"none/name", b"orders/none/name", b"orders/0/none/name", b".kafkafs/none/name"):
        assert number_of(call, b"%s/%s" % (root, path)) == "ENOENT", path
    assert number_of(call, b"") == "ENOENT"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "path",
    [
        *(b"none", b"orders/none", b"orders/0/none", b"orders/0/offset/none", b"orders/0/offset/99", b"orders/1"),
        *(b"ORDERS", b"orders/00", b"orders/+0", b"orders/0/Values", b"orders/0/offset/3.JSON", b".kafkafs/none"),
        *(b"\xff\xfe", b"orders/0/\xc3", b"orders/0/offset/1\n", b" orders", b"orders/0/offset/3 ", b"orders/0/..."),
        *(b"orders/0/by-time/2999-01-01", b"orders/0/by-time/tomorrow", b"orders/0/segments/none.log.txt"),
    ],
)
def test_what_is_not_there(trees: Trees, name: str, path: bytes) -> None:
    assert number_of(CALLS[name], os.fsencode(trees.writable.path) + b"/" + path) == "ENOENT"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("directory", ["root", "topic", "partition", "views", "segments", "control"])
def test_names_that_are_too_long(trees: Trees, name: str, directory: str) -> None:
    call, place = EVERY[name], os.fsencode(trees.path(directory))
    longest = number_of(call, place + b"/" + b"n" * NAME_BYTES_MAX)
    assert longest in ({"ENOENT"} if name in CALLS else {"EPERM", "EINVAL"})
    assert number_of(call, place + b"/" + b"n" * (NAME_BYTES_MAX + 1)) == "ENAMETOOLONG"
    assert number_of(call, place + b"/" + b"n" * (NAME_BYTES_MAX + 1) + b"/name") == "ENAMETOOLONG"
    assert number_of(call, place + b"/" + b"n" * 100_000) == "ENAMETOOLONG"


def test_paths_that_are_too_long(trees: Trees) -> None:
    root = os.fsencode(trees.writable.path) + b"/"
    whole = b"orders/0/offset/3"
    for length, outcome in ((PATH_BYTES_MAX, None), (PATH_BYTES_MAX + 1, "ENAMETOOLONG")):
        filling = length - len(root) - len(whole)
        path = root + b"/" * (filling % 2) + b"./" * (filling // 2) + whole
        assert len(path) == length
        assert number_of(os.stat, path) == outcome
        assert number_of(CALLS["open"], path) == outcome


def test_long_ways_round(trees: Trees) -> None:
    root = str(trees.writable.path)
    assert os.path.samefile(f"{root}/orders/0/../../orders/./0/offset/../values", f"{root}/orders/0/values")
    assert os.stat(f"{root}/orders/0/../..").st_ino == os.stat(root).st_ino
    assert os.stat(f"{root}/orders/0/offset/..").st_ino == os.stat(f"{root}/orders/0").st_ino
    assert os.stat(f"{root}/..").st_ino == os.stat(trees.scratch).st_ino


def test_links(trees: Trees) -> None:
    link, record = trees.path("link"), trees.path("link").resolve()
    target = os.readlink(link)
    assert target.startswith("../offset/")
    assert os.lstat(link).st_size == len(target)
    assert os.stat(link).st_ino == os.stat(record).st_ino
    assert link.read_bytes() == record.read_bytes()
    for kind in ("topic", "record", "stream", "append"):
        assert number_of(os.readlink, os.fsencode(trees.path(kind))) == "EINVAL"  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Too many levels"):
        os.open(link, os.O_RDONLY | os.O_NOFOLLOW)
    held = os.open(link, os.O_PATH | os.O_NOFOLLOW)
    assert os.readlink("", dir_fd=held) == target
    assert number_of(lambda _: os.read(held, 1), b"") == "EBADF"
    os.close(held)


def test_circles_that_lead_through_it(trees: Trees) -> None:
    # No link of the tree leads out of it, so a circle needs one outside; it is the kernel that counts.
    root, circle = trees.writable.path, trees.scratch / "circle"
    circle.symlink_to(root / "orders/0/offset/../../../../circle")
    try:
        for name in ("stat", "open", "opendir", "chdir", "chmod", "truncate"):
            assert number_of(CALLS[name], os.fsencode(circle)) == "ELOOP"
        circle.unlink()
        circle.symlink_to(root / "orders/0/values")
        assert circle.read_bytes() == (root / "orders/0/values").read_bytes()
    finally:
        circle.unlink()


def test_names_are_looked_up_in_parallel(trees: Trees) -> None:
    root = trees.writable.path
    failures: list[object] = []

    def look(first: int) -> None:
        for i in range(300):
            number = (first + i) % 30
            try:
                found = (root / f"orders/0/offset/{number}").read_bytes(), os.stat(root / "orders/0/values").st_ino
                missing = number_of(os.stat, os.fsencode(root / f"orders/0/offset/{100 + i}"))  # type: ignore[arg-type]
                if found != (b"value %d" % (number + 1), stream) or missing != "ENOENT":
                    failures.append((number, found, missing))
            except OSError as error:
                failures.append(error)

    stream = os.stat(root / "orders/0/values").st_ino
    threads = [threading.Thread(target=look, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
