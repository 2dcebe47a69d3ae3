"""Every call that would change something, on every kind of node, beside a real file system of the same shape.

What a real file system refuses is refused with the same number, and what it does is refused with EPERM, unless it is
one of the few things that mean something here or nothing anywhere. A mount that is read-only is in nothing different
from a real one that is.

This directory goes through what pjdfstest and libfuse's test_syscalls look at. Of pjdfstest's groups apply chmod,
chown, ftruncate, link, mkdir, mkfifo, mknod, open, posix_fallocate, rename, rmdir, symlink, truncate, unlink and
utimensat: as refusals here and in test_users.py, their ENOENT, ENOTDIR, ENAMETOOLONG and ELOOP in test_names.py, what
open and ftruncate do on a file that is appended to in test_appending.py. Not: granular and chflags, which other
systems have; and of each group what it says of times, owners, sticky directories and link counts after a change, as
there is no change. Of test_syscalls apply: open with every flag, seekdir, reading of directories and links, statfs,
nodes that cannot be made, mkdir and rmdir, truncate, utime, create in every mode, and descriptors of what was removed.
Not: rename, link, and writing at a position, which nothing here allows.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

import pytest
from system_call_trees import copy_shape, real_file_system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from system_call_trees import Trees

pytestmark = pytest.mark.e2e

NEW: Final = "no such name"  # which no topic can have
FILE: Final = "orders/0/info"
DIRECTORY: Final = "orders/0/segments"


def opened(flags: int) -> Callable[[Path, str], None]:
    return lambda root, path: os.close(os.open(root / path, flags, 0o644))


CALLS: Final[dict[str, Callable[[Path, str], object]]] = {
    "chmod": lambda root, path: os.chmod(root / path, 0o600),
    "chown": lambda root, path: os.chown(root / path, 12, 12),
    "lchown": lambda root, path: os.chown(root / path, 12, 12, follow_symlinks=False),
    "utimensat": lambda root, path: os.utime(root / path, (1, 1)),
    "utimensat now": lambda root, path: os.utime(root / path),
    "utimensat of a link": lambda root, path: os.utime(root / path, (1, 1), follow_symlinks=False),
    "truncate": lambda root, path: os.truncate(root / path, 3),
    "truncate longer": lambda root, path: os.truncate(root / path, 300_000),
    "truncate to less than nothing": lambda root, path: os.truncate(root / path, -1),
    "unlink": lambda root, path: os.unlink(root / path),
    "rmdir": lambda root, path: os.rmdir(root / path),
    "rename": lambda root, path: os.rename(root / path, root / "orders/0" / NEW),
    "rename onto a file": lambda root, path: os.rename(root / path, root / FILE),
    "rename onto a directory": lambda root, path: os.rename(root / path, root / DIRECTORY),
    "rename into itself": lambda root, path: os.rename(root / path, root / path / NEW),
    "rename onto it": lambda root, path: os.rename(root / "orders/0/values", root / path),
    "rename to where nothing is": lambda root, path: os.rename(root / path, root / "none" / NEW),
    "link": lambda root, path: os.link(root / path, root / "orders/0" / NEW),
    "link onto a file": lambda root, path: os.link(root / path, root / FILE),
    "link inside": lambda root, path: os.link(root / FILE, root / path / NEW),
    "symlink": lambda root, path: os.symlink("target", root / path),
    "symlink inside": lambda root, path: os.symlink("target", root / path / NEW),
    "mknod": lambda root, path: os.mknod(root / path),
    "mknod inside": lambda root, path: os.mknod(root / path / NEW, stat.S_IFREG | 0o600),
    "mknod of a device inside": lambda root, path: os.mknod(root / path / NEW, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "mkfifo": lambda root, path: os.mkfifo(root / path),
    "mkfifo inside": lambda root, path: os.mkfifo(root / path / NEW),
    "mkdir": lambda root, path: os.mkdir(root / path),
    "mkdir inside": lambda root, path: os.mkdir(root / path / NEW),
    "mkdir where nothing is": lambda root, path: os.mkdir(root / path / "none" / NEW),
    "unlink inside": lambda root, path: os.unlink(root / path / NEW),
    "rmdir inside": lambda root, path: os.rmdir(root / path / NEW),
    "rmdir of dot": lambda root, path: os.rmdir(f"{root}/{path}/."),
    "rmdir of dot dot": lambda root, path: os.rmdir(f"{root}/{path}/.."),
    "create inside": lambda root, path: opened(os.O_WRONLY | os.O_CREAT)(root, f"{path}/{NEW}"),
    "create": opened(os.O_RDONLY | os.O_CREAT | os.O_EXCL),
    "open to write": opened(os.O_WRONLY),
    "open to read and write": opened(os.O_RDWR),
    "open to append": opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    "open to cut": opened(os.O_WRONLY | os.O_TRUNC),
    "open to read and cut": opened(os.O_RDONLY | os.O_TRUNC),
    "open a directory to write": opened(os.O_WRONLY | os.O_DIRECTORY),
    "open a link to write": opened(os.O_WRONLY | os.O_NOFOLLOW),
    "open what has no name": opened(os.O_WRONLY | os.O_TMPFILE),
    "setxattr": lambda root, path: os.setxattr(root / path, "user.a", b"b"),
    "removexattr": lambda root, path: os.removexattr(root / path, "user.a"),
}
KINDS: Final = (
    *("root", "topic", "partition", "views", "segments", "control", "record", "unlisted record", "range", "stream"),
    *("fact", "raw segment", "twin", "link", "text", "log", "append", "append.raw", "config", "start"),
)
WRITTEN: Final = {"append", "append.raw", "config", "start"}
OPENING: Final = {
    *("open to write", "open to read and write", "open to append", "open to cut", "open to read and cut"),
    "open a link to write",
}
TO_ITSELF: Final = {("rename onto a directory", "segments"), ("rename onto it", "stream")}
NOT_KEPT: Final = {errno.ENOTEMPTY, errno.ENODATA, errno.ENOTSUP}
"""What depends on what a real tree has in it: here that is refused before anybody looks."""


def outcome(call: Callable[[Path, str], object], root: Path, path: str) -> int:
    try:
        call(root, path)
    except OSError as error:
        return error.errno or -1
    return 0


def may_be(name: str, kind: str, real: int) -> set[int]:
    """The numbers that a call may end with here where a real file system ends with this one, 0 for success."""
    if real:
        return {real, errno.EPERM} if real in NOT_KEPT else {real}
    if (kind in WRITTEN and name in OPENING) or (name, kind) in TO_ITSELF:
        return {0}
    if name == "mkdir inside" and kind in {"root", "topic"}:
        return {errno.EINVAL}  # where directories can be made this name is illegal
    return {errno.EOPNOTSUPP} if name == "open what has no name" else {errno.EPERM}


def listing(root: Path) -> list[tuple[str, list[str]]]:
    return [(path, sorted(files)) for path, _, files in os.walk(root / "orders")]


@pytest.fixture(scope="module")
def real(trees: Trees) -> Iterator[Path]:
    with real_file_system(trees) as place:
        yield place


@pytest.mark.parametrize("name", CALLS)
def test_nothing_changes_but_what_may(trees: Trees, real: Path, name: str) -> None:
    root = trees.writable.path
    before = listing(root)
    wrong = []
    copy_shape(trees, real)
    for kind in KINDS:
        path = trees.kinds[kind]
        number = outcome(CALLS[name], real, path)
        if not number:
            copy_shape(trees, real)
        found = outcome(CALLS[name], root, path)
        if found not in may_be(name, kind, number):
            wrong.append(f"{kind}: {errno.errorcode.get(found)}, in a real one {errno.errorcode.get(number)}")
    assert wrong == []
    assert listing(root) == before


@pytest.fixture(scope="module")
def real_read_only(trees: Trees) -> Iterator[Path]:
    with real_file_system(trees, is_read_only=True) as place:
        yield place


@pytest.mark.parametrize("name", CALLS)
def test_a_read_only_mount_is_as_any_other(trees: Trees, real_read_only: Path, name: str) -> None:
    for_each = {}
    for root in (trees.read_only.path, real_read_only):
        for_each[root] = {kind: errno.errorcode.get(outcome(CALLS[name], root, trees.kinds[kind])) for kind in KINDS}
    assert for_each[trees.read_only.path] == for_each[real_read_only]
