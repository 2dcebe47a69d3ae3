"""Files in memory that can fail: every operation that changes something is a step, and a run can be cut at any step.

`faults` defines cuts; `after_process_death` and `after_power_loss` give the files that the next process would find. The
same seed cuts in the same way. Time stands still unless `now_ms` is moved. `uid` and `gid` are the user who makes
files; every user may do everything.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.files import FileLock, FileRegion, Files, FileStatus, ReadableFile, WritableFile
from storage.files.opened import Access
from storage.files.ownership import Terms, terms_of_directory, terms_of_file
from storage.testing.faults import Cut, CutError, Effect, InterruptError
from storage.testing.memory_nodes import Content, Directory, MemoryLock, MemoryRegion
from storage.testing.path_directory import PathDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

_ERRNO: Final = {Effect.DISK_FULL: errno.ENOSPC, Effect.DISK_ERROR: errno.EIO}


class MemoryFiles(Files):
    """A file system in memory, with a root that exists."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.steps = 0
        self.cut: Cut | None = None
        self.now_ms = 1_700_000_000_000
        self.capacity_bytes = capacity_bytes
        self.uid = self.gid = 0
        self.umask = 0o022
        self._dead = False
        self._coming: MemoryError | InterruptError | None = None  # once the step under way has happened
        self._numbers = 1
        self._root = Directory(0)
        self._locks: set[str] = set()

    # After the process

    def after_process_death(self) -> MemoryFiles:
        """The files that the next process finds: everything that was written, and no locks."""
        return self._successor(copy.deepcopy(self._root))

    def after_power_loss(self, seed: int) -> MemoryFiles:
        """The files that the next process finds after the machine stopped: everything synced, and some of the rest."""
        rng = random.Random(seed)
        contents: dict[int, Content] = {}

        def survive(node: Content | Directory) -> Content | Directory:
            if isinstance(node, Directory):
                return node.survivors(survive, rng.randint(0, len(node.pending)))
            return contents.setdefault(node.number, node.after_power_loss(rng))

        root = survive(self._root)
        assert isinstance(root, Directory)
        return self._successor(root)

    def _successor(self, root: Directory) -> MemoryFiles:
        successor = MemoryFiles(capacity_bytes=self.capacity_bytes)
        successor._root = root
        successor._numbers = self._numbers
        successor.now_ms = self.now_ms
        successor.uid, successor.gid, successor.umask = self.uid, self.gid, self.umask
        return successor

    # Steps

    def step(self, path: str, partly: Callable[[random.Random], None] | None = None) -> None:
        """Count a step that is about to happen. A cut takes effect here, or in `stepped`."""
        if self._dead:
            raise CutError
        number = self.steps
        self.steps += 1
        if self.cut is None or number != self.cut.step:
            return
        if self.cut.effect is Effect.BREAK_BEFORE:
            raise self.cut.break_error()
        if self.cut.effect is Effect.BREAK_AFTER:
            self._coming = self.cut.break_error()
            return
        if partly is not None:
            partly(random.Random(self.cut.seed))
        if self.cut.effect is Effect.DEATH:
            self._dead = True
            raise CutError
        code = _ERRNO[self.cut.effect]
        raise OSError(code, os.strerror(code), path)

    def stepped(self) -> None:
        """Mark the step that was counted last as done."""
        error, self._coming = self._coming, None
        if error is not None:
            raise error

    def require_space(self, path: str, more_bytes: int) -> None:
        """Raise `OSError` if the disk does not have so much left."""
        if self.capacity_bytes is not None and more_bytes > self.capacity_bytes - self._used_bytes(self._root):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _used_bytes(self, directory: Directory) -> int:
        return sum(
            self._used_bytes(node) if isinstance(node, Directory) else node.held_bytes
            for node in directory.entries.values()
        )

    # Files

    def directory(self, path: str | os.PathLike[str]) -> PathDirectory:
        """The directory of this path, which need not exist."""
        return PathDirectory(self, path)

    def parent(self, path: str | os.PathLike[str]) -> tuple[PathDirectory, str]:
        """The directory that a file is in, and the file's name in it."""
        parent, name = os.path.split(path)
        return PathDirectory(self, parent), name

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading."""
        return MemoryReadableFile(os.fspath(path), self._content(path))

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        """Open a file for writing, or make one."""
        name = os.fspath(path)
        directory, leaf = self._directory_and_leaf(path)
        node = directory.entries.get(leaf)
        if node is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            terms = terms_of_file(self.directory(Path(name).parent), leaf, self.uid)
            self.step(name)
            node = Content(self._number(), modified_ms=self.now_ms, access=self._access(terms))
            directory.change({leaf: node})
            self.stepped()
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return MemoryWritableFile(name, node, self)

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        """The status of the path; None if it does not exist."""
        try:
            node = self._node(path)
        except FileNotFoundError:
            return None
        size_bytes, held_bytes = (0, 0) if isinstance(node, Directory) else (len(node.data), node.held_bytes)
        is_directory = isinstance(node, Directory)
        blocks = -(-held_bytes // 512)
        what = (size_bytes, node.modified_ms, is_directory, (0, node.number), blocks, node.is_link)
        return FileStatus(*what, *node.access, changed_ns=node.changed)

    def names(self, directory: str | os.PathLike[str]) -> list[str]:
        """The names in a directory."""
        return list(self._directory(directory).entries)

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Give a file or directory another name within its directory."""
        node = self._node(old)
        source, old_leaf = self._directory_and_leaf(old)
        target, new_leaf = self._directory_and_leaf(new)
        assert source is target, "storage renames within a directory only"
        self._change(old, source, {old_leaf: None, new_leaf: node})

    def link(self, path: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Give a file a second name."""
        node = self._content(path)
        directory, leaf = self._directory_and_leaf(new)
        if leaf in directory.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(new))
        self._change(new, directory, {leaf: node})

    def make_link(self, path: str | os.PathLike[str], target: str) -> None:
        """Make a symbolic link: a path through it leads to its target."""
        directory, leaf = self._directory_and_leaf(path)
        if leaf in directory.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        link = Content(self._number(), bytearray(target.encode()), is_link=True)
        self._change(path, directory, {leaf: link})

    def link_target(self, path: str | os.PathLike[str]) -> str:
        """What a symbolic link says."""
        node = self._content(path)
        if not node.is_link:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.fspath(path))
        return node.data.decode()

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Take a file's name away."""
        self._content(path)
        directory, leaf = self._directory_and_leaf(path)
        self._change(path, directory, {leaf: None})

    def make_directory(self, path: str | os.PathLike[str], *, like: str | os.PathLike[str] | None = None) -> None:
        """Make a directory."""
        name = os.fspath(path)
        directory, leaf = self._directory_and_leaf(path)
        if leaf in directory.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        parent = None if self.is_root(name) else self.directory(Path(name).parent)
        terms = terms_of_directory(parent, None if like is None else self.directory(like), self.uid)
        self.step(name)
        directory.change({leaf: Directory(self._number(), modified_ms=self.now_ms, access=self._access(terms))})
        self.stepped()

    def _change(
        self, path: str | os.PathLike[str], directory: Directory, changes: dict[str, Content | Directory | None]
    ) -> None:
        self.step(os.fspath(path))
        directory.change(changes)
        self.stepped()

    def _access(self, terms: Terms) -> Access:
        return terms.settled(Access(self.uid, self.gid, terms.making_mode & ~self.umask))

    def set_access(self, path: str | os.PathLike[str], uid: int, gid: int, mode: int) -> None:
        """Give a file or directory to a user and a group, with these permissions."""
        self._node(path).access = Access(uid, gid, mode)

    def check_can_give(self, directory: str | os.PathLike[str]) -> None:
        """Do nothing: root can give everything away here."""

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        """Remove an empty directory."""
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(path))
        directory, leaf = self._directory_and_leaf(path)
        self._change(path, directory, {leaf: None})

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Bring the names in a directory to disk."""
        directory = self._directory(path)
        self.step(os.fspath(path))
        directory.sync()
        self.stepped()

    def lock(self, path: str | os.PathLike[str]) -> FileLock:
        """Take a lock that lasts until it is released or the process dies."""
        self.open_writing(path, create=True).close()
        return MemoryLock(os.fspath(path), self._locks)

    def is_locked(self, path: str | os.PathLike[str]) -> bool:
        """Return True if the lock is held."""
        return os.fspath(path) in self._locks

    def free_bytes(self, path: str | os.PathLike[str]) -> int:
        """The free space."""
        self._node(path)
        return 2**62 if self.capacity_bytes is None else self.capacity_bytes - self._used_bytes(self._root)

    # Paths

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _node(self, path: str | os.PathLike[str]) -> Content | Directory:
        node: Content | Directory = self._root
        for part in os.fspath(path).strip("/").split("/"):
            if part:
                found = node.entries.get(part) if isinstance(node, Directory) else None
                if found is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
                node = found
        return node

    def _content(self, path: str | os.PathLike[str]) -> Content:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        return node

    def _directory(self, path: str | os.PathLike[str]) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        return node

    def _directory_and_leaf(self, path: str | os.PathLike[str]) -> tuple[Directory, str]:
        parent, leaf = os.path.split(os.fspath(path).rstrip("/"))
        return self._directory(parent), leaf


class MemoryReadableFile(ReadableFile):
    """A file in memory, read."""

    def __init__(self, path: str, content: Content) -> None:
        super().__init__(path, -1)
        self._content = content

    def size_bytes(self) -> int:
        """The file's size."""
        return len(self._content.data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """The bytes from the position."""
        return bytes(self._content.data[position : position + size_bytes])

    def read_cached_at(self, position: int, size_bytes: int) -> bytearray:
        """The same."""
        return self._content.data[position : position + size_bytes]

    def data_from(self, position: int) -> int:
        """The position: no byte is in a hole."""
        return position

    def hole_from(self, position: int) -> int:
        """The end."""
        return max(position, self.size_bytes())


class MemoryWritableFile(WritableFile):
    """A file in memory, written."""

    def __init__(self, path: str, content: Content, files: MemoryFiles) -> None:
        super().__init__(path, -1)
        self._content = content
        self._files = files

    size_bytes = MemoryReadableFile.size_bytes
    read_at = MemoryReadableFile.read_at
    read_cached_at = MemoryReadableFile.read_cached_at
    data_from = MemoryReadableFile.data_from
    hole_from = MemoryReadableFile.hole_from

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers one after the other, as one step."""
        data = b"".join(bytes(memoryview(buffer)) for buffer in buffers)
        self._files.require_space(self.path, max(position + len(data) - self._content.held_bytes, 0))
        self._files.step(self.path, lambda rng: self._content.write(position, data[: rng.randint(0, len(data))]))
        self._content.write(position, data)
        self._content.modified_ms = self._files.now_ms
        self._files.stepped()

    def truncate(self, size_bytes: int) -> None:
        """Make the file so long."""
        self._files.step(self.path)
        self._content.resize(size_bytes)
        self._content.modified_ms = self._files.now_ms
        self._files.stepped()

    def allocate(self, size_bytes: int, *, begin: int = 0) -> None:
        """Make the file at least so long, and give it the space."""
        assert begin <= self._content.held_bytes
        self._files.require_space(self.path, max(size_bytes - self._content.held_bytes, 0))
        self._files.step(self.path)
        if size_bytes > len(self._content.data):
            self._content.resize(size_bytes)
        self._content.hold(size_bytes)
        self._files.stepped()

    def set_modified(self, modified_ms: int) -> None:
        """Set the file's time, as one step."""
        self._files.step(self.path)
        self._content.modified_ms = modified_ms
        self._files.stepped()

    def rest(self) -> None:
        """Be used no more until it is woken."""
        self._rested = (0, self._content.number)

    def wake(self) -> None:
        """Be used again, unless another file is there."""
        if self._rested is not None:
            status = self._files.status(self.path)
            if status is None or status.identity != self._rested:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
            self._rested = None

    def sync(self) -> None:
        """Bring the file to disk."""
        assert not self.is_resting
        self._files.step(self.path)
        self._content.sync()
        self._files.stepped()

    def region(self, size_bytes: int) -> FileRegion:
        """The first bytes of the file as memory."""
        if size_bytes > len(self._content.data):
            raise OSError(errno.EIO, f"another process has cut the file, which had {size_bytes} bytes", self.path)
        return MemoryRegion(self.path, self._content, self._files, size_bytes)
