"""Open files: read, written, or kept in memory. Each object owns its descriptor."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Buffer

_VECTOR_MAX: Final = 1024  # buffers in one call to the kernel
_NO_HOLES: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})  # of file systems that do not tell of holes
_NOT_SHARED: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY, errno.ETXTBSY, errno.EBADF}
)
"""What a file system answers that cannot copy by itself; and the kernel, of a file without a descriptor."""
_FICLONE: Final = 0x40049409  # _IOW(0x94, 9, int) of linux/fs.h
_devices: Final[dict[int, int]] = {}
_ORDINARY: Final = frozenset({stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The file system's answer about a path. `identity` survives renames and never belongs to two files at once."""

    size_bytes: int
    modified_ms: int
    is_directory: bool
    identity: tuple[int, int]
    disk_blocks: int = 0  # allocated blocks of 512 bytes
    is_link: bool = False  # a symbolic link; then the answer is about the link and not its target
    uid: int = 0
    gid: int = 0
    mode: int = 0o644  # the permission bits alone; in a sticky directory only its owner may write
    special: int = 0  # the type, as in `st_mode`, of what is no regular file, directory or link
    names: int = 1  # how many hard links lead to it
    changed_ns: int = field(default=0, compare=False)  # when its contents, its name or its rights last changed

    @property
    def type(self) -> int:
        """The type, as in `st_mode`."""
        if self.is_directory:
            return stat.S_IFDIR
        return self.special or (stat.S_IFLNK if self.is_link else stat.S_IFREG)

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return not (self.is_directory or self.is_link or self.special)

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Convert the kernel's answer."""
        kind = stat.S_IFMT(found.st_mode)
        return cls(
            found.st_size,
            found.st_mtime_ns // 1_000_000,
            kind == stat.S_IFDIR,
            identity_of(found),
            found.st_blocks,
            kind == stat.S_IFLNK,
            found.st_uid,
            found.st_gid,
            _permissions(found.st_mode),
            0 if kind in _ORDINARY else kind,
            found.st_nlink,
            found.st_ctime_ns,
        )


def identity_of(found: os.stat_result) -> tuple[int, int]:
    """Return the numbers of the file system and of the file in it. Each file system's number is one object."""
    return _devices.setdefault(found.st_dev, found.st_dev), found.st_ino


def _permissions(mode: int) -> int:
    """Return the permission bits. Users may change their own files alone in a sticky directory, so these say none."""
    is_sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    return mode & 0o777 & (~0o022 if is_sticky else ~0)


class Access(NamedTuple):
    """The owner and the permission bits of a file or directory."""

    uid: int
    gid: int
    mode: int

    def without_list(self, access_list: bytes | None) -> Access:
        """Return what is certain where there is an access list: the owner's bits, as it may take from all others."""
        return self if access_list is None else self._replace(mode=self.mode & 0o700)


def access_of(status: FileStatus) -> Access:
    """Return the owner and the permission bits in a status."""
    return Access(status.uid, status.gid, status.mode)


class ReadableFile:
    """A file open for reading at any position. Safe to share between threads."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor, for calls to the kernel; -1 if there is none."""
        return self._descriptor

    def identity(self) -> tuple[int, int] | None:
        """Return the identity of the file, as in its `FileStatus`; None for one that has no descriptor."""
        return None if self._descriptor < 0 else _identity_of(self._descriptor, self.path)

    def size_bytes(self) -> int:
        """Return the file's length now."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise located(error, self.path) from None

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read bytes from `position`. The result is shorter only where the file ends."""
        parts: list[bytes] = []
        try:
            while size_bytes > 0:
                part = os.pread(self._descriptor, size_bytes, position)
                if not part:
                    break
                parts.append(part)
                position += len(part)
                size_bytes -= len(part)
        except OSError as error:
            raise located(error, self.path) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_cached_at(self, position: int, size_bytes: int) -> bytearray | None:
        """Read like `read_at` without waiting for a disk. None if that would wait, or the file system cannot tell."""
        buffer = bytearray(size_bytes)
        try:
            count = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
        except OSError:
            return None
        if count == size_bytes:
            return buffer
        # A read ends at bytes that are not in memory, and at the end of the file.
        return None if position + count < self.size_bytes() else buffer[:count]

    def data_from(self, position: int) -> int:
        """Return the first position from this one on that is not in a hole; at most the file's length.

        Holes take no space and read as zeros. Where a file system does not tell of them, nothing lies in one.
        """
        return self._sought(position, os.SEEK_DATA)

    def hole_from(self, position: int) -> int:
        """Return where the first hole from this position on begins; the file's length if there is none."""
        return self._sought(position, os.SEEK_HOLE)

    def _sought(self, position: int, what: int) -> int:
        try:
            return os.lseek(self._descriptor, position, what)  # no reader uses the descriptor's own position
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole follows, or the file ends before
                return max(self.size_bytes(), position)
            if error.errno in _NO_HOLES:
                return position if what == os.SEEK_DATA else max(self.size_bytes(), position)
            raise located(error, self.path) from None

    def close(self) -> None:
        """Close the descriptor. Closing twice is harmless."""
        descriptor, self._descriptor = self._descriptor, -1  # its number may be another file's right after
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class WritableFile(ReadableFile):
    """A file open for reading and writing.

    It can rest: without a descriptor, until `wake` opens it with `reopen`. While it rests, or is about to, no other
    thread uses it.
    """

    _rested: tuple[int, int] | None = None

    def __init__(self, path: str, descriptor: int, reopen: Callable[[], int] | None = None) -> None:
        super().__init__(path, descriptor)
        self._reopen = reopen

    @property
    def is_resting(self) -> bool:
        """True if the file must be woken before it is used."""
        return self._rested is not None

    def rest(self) -> None:
        """Close the descriptor. Data that was not synced may not reach the disk. Resting twice is harmless."""
        if self._descriptor >= 0:
            self._rested = _identity_of(self._descriptor, self.path)
            self.close()

    def wake(self) -> None:
        """Open the file again; raises `FileNotFoundError` if it is no longer at its path. Waking twice is harmless."""
        if self._rested is None or self._reopen is None:
            return
        descriptor = self._reopen()
        if _identity_of(descriptor, self.path) != self._rested:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        self._descriptor, self._rested = descriptor, None

    def try_lock(self) -> bool:
        """Lock the file until it is closed, and return True; False if another opened file has it locked so."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise located(error, self.path) from None
        return True

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers one after the other. An error may leave any part of them written."""
        try:
            written = os.pwritev(self._descriptor, buffers[:_VECTOR_MAX], position)
            for buffer in buffers:
                written -= memoryview(buffer).nbytes
            if written:  # fewer were written: the disk is full, or there are more buffers than one call takes
                self._write_rest(position, buffers, -written)
        except OSError as error:
            raise located(error, self.path) from None

    def _write_rest(self, position: int, buffers: Sequence[Buffer], rest_bytes: int) -> None:
        """Write the last bytes of the buffers."""
        views = [view for buffer in buffers if (view := memoryview(buffer).cast("B")).nbytes]
        written = sum(view.nbytes for view in views) - rest_bytes
        while True:
            position += written
            while views and written >= views[0].nbytes:
                written -= views.pop(0).nbytes
            if not views:
                return
            views[0] = views[0][written:]
            written = os.pwritev(self._descriptor, views[:_VECTOR_MAX], position)

    def clone(self, source: ReadableFile) -> bool:
        """Take all contents of another file by sharing its blocks, if the file system can; False if it cannot."""
        try:
            fcntl.ioctl(self._descriptor, _FICLONE, source.fileno())
        except OSError as error:
            if error.errno in _NOT_SHARED:
                return False
            raise located(error, self.path) from None
        except ValueError:  # one of the two has no descriptor
            return False
        return True

    def copy_from(self, source: ReadableFile, begin: int, size_bytes: int, position: int) -> int:
        """Copy bytes of another file, from `begin`, to `position`, and return their number; 0 where the source ends.

        The kernel copies where it can; on some file systems the copy then shares the blocks.
        """
        try:
            copied = os.copy_file_range(source.fileno(), self._descriptor, size_bytes, begin, position)
        except OSError as error:
            if error.errno not in _NOT_SHARED:
                raise located(error, self.path) from None
            copied = 0
        except ValueError:  # one of the two has no descriptor
            copied = 0
        if copied:
            return copied
        data = source.read_at(begin, size_bytes)
        if data:
            self.write_at(position, [data])
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        """Set the file's length: cut it, or add zeros that take no space."""
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise located(error, self.path) from None

    def allocate(self, size_bytes: int, *, begin: int = 0) -> None:
        """Allocate space up to a length, so that writing within it cannot fail on a full disk.

        The space before `begin` is allocated already.
        """
        try:
            os.posix_fallocate(self._descriptor, begin, size_bytes - begin)
        except OSError as error:
            raise located(error, self.path) from None

    def set_modified(self, modified_ms: int) -> None:
        """Set the file's modification time."""
        try:
            os.utime(self._descriptor, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        except OSError as error:
            raise located(error, self.path) from None

    def sync(self) -> None:
        """Return when the file's data and length are on disk."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise located(error, self.path) from None

    def region(self, size_bytes: int) -> FileRegion:
        """Return the first bytes of the file as memory. While it is open, the caller does not change the length."""
        return FileRegion(self, size_bytes)


class FileRegion:
    """The first bytes of an open file, in memory too. Data that `put` writes is in both.

    It is no mapping of the file: another user who may write to the file can cut it, and a process that reads mapped
    bytes which are gone is killed. Memory is taken only where the file has data.
    """

    def __init__(self, file: WritableFile, size_bytes: int) -> None:
        self.path = file.path
        self._file = file
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._memory).toreadonly()
        try:
            self._load(size_bytes)
        except BaseException:
            self.close()
            raise

    def _load(self, size_bytes: int) -> None:
        if self._file.size_bytes() < size_bytes:
            raise OSError(errno.EIO, f"another process has cut the file, which had {size_bytes} bytes", self.path)
        begin = self._file.data_from(0)
        while begin < size_bytes:
            end = min(self._file.hole_from(begin), size_bytes)
            data = self._file.read_at(begin, end - begin)
            self._memory[begin : begin + len(data)] = data
            begin = self._file.data_from(end)

    def put(self, position: int, data: bytes) -> None:
        """Write within the region."""
        self._file.write_at(position, [data])
        self._memory[position : position + len(data)] = data

    def flush(self) -> None:
        """Return when all written data is on disk."""
        self._file.sync()

    def close(self) -> None:
        """Give the memory back. No caller may still hold the view. Closing twice is harmless."""
        self.view.release()
        self._memory.close()


def _identity_of(descriptor: int, path: str) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError as error:
        raise located(error, path) from None
    return found.st_dev, found.st_ino


def located(error: OSError, path: str) -> OSError:
    """Add the path to an error of a call that only had a descriptor."""
    if error.filename is None:
        error.filename = path
    return error
