"""What is open: files that are read, written, mapped or locked, whose descriptors these objects own."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Buffer

_VECTOR_MAX: Final = 1024  # buffers that one call to the kernel takes


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What the file system knows of a path; `identity` stays through renames and never belongs to two at once."""

    size_bytes: int
    modified_ms: int
    is_directory: bool
    identity: tuple[int, int]
    disk_blocks: int = 0  # of 512 bytes, that are taken
    is_link: bool = False  # a symbolic one, of which this is said and not of where it leads
    uid: int = 0
    gid: int = 0
    mode: int = 0o644  # the permission bits alone

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """What the kernel says."""
        return cls(
            found.st_size,
            found.st_mtime_ns // 1_000_000,
            stat.S_ISDIR(found.st_mode),
            (found.st_dev, found.st_ino),
            found.st_blocks,
            stat.S_ISLNK(found.st_mode),
            found.st_uid,
            found.st_gid,
            found.st_mode & 0o777,
        )


class ReadableFile:
    """A file open for reading at any position. Safe to share between threads."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size_bytes(self) -> int:
        """How long the file is now."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise located(error, self.path) from None

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """The bytes from `position`; fewer than asked for only where the file ends."""
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
        """The same if no disk has to be waited for; None otherwise, or if the file system cannot tell."""
        buffer = bytearray(size_bytes)
        try:
            count = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
        except OSError:
            return None
        if count == size_bytes:
            return buffer
        # What is not in memory ends it as well as the end of the file does.
        return None if position + count < self.size_bytes() else buffer[:count]

    def close(self) -> None:
        """Give the descriptor back. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class WritableFile(ReadableFile):
    """A file open for reading and writing.

    It can rest: without a descriptor, until `reopen` gives it one again. While it rests, or is about to, no other
    thread uses it.
    """

    _rested: tuple[int, int] | None = None

    def __init__(self, path: str, descriptor: int, reopen: Callable[[], int] | None = None) -> None:
        super().__init__(path, descriptor)
        self._reopen = reopen

    @property
    def is_resting(self) -> bool:
        """Whether it has to be woken before it is used."""
        return self._rested is not None

    def rest(self) -> None:
        """Give the descriptor back. What was not synced is not known to get to disk; resting twice is harmless."""
        if self._descriptor >= 0:
            self._rested = _identity_of(self._descriptor, self.path)
            self.close()

    def wake(self) -> None:
        """Open the file again; raises `FileNotFoundError` if it is not where it was. Waking twice is harmless."""
        if self._rested is None or self._reopen is None:
            return
        descriptor = self._reopen()
        if _identity_of(descriptor, self.path) != self._rested:
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        self._descriptor, self._rested = descriptor, None

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers one behind the other. An error may leave any part of them written."""
        views = [view for buffer in buffers if (view := memoryview(buffer).cast("B")).nbytes]
        try:
            while views:
                written = os.pwritev(self._descriptor, views[:_VECTOR_MAX], position)
                position += written
                while views and written >= views[0].nbytes:
                    written -= views.pop(0).nbytes
                if written:
                    views[0] = views[0][written:]
        except OSError as error:
            raise located(error, self.path) from None

    def truncate(self, size_bytes: int) -> None:
        """Make the file so long, cutting it or adding zeros that take no space."""
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise located(error, self.path) from None

    def allocate(self, size_bytes: int, *, begin: int = 0) -> None:
        """Make the file at least so long and give it the space, so that writing within cannot fail for want of it.

        What lies before `begin` has its space already.
        """
        try:
            os.posix_fallocate(self._descriptor, begin, size_bytes - begin)
        except OSError as error:
            raise located(error, self.path) from None

    def set_modified(self, modified_ms: int) -> None:
        """Have the file look as if it had been written last at this time."""
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

    def map(self, size_bytes: int) -> MappedRegion:
        """The first bytes of the file as memory; the file is at least so long for as long as that lives."""
        try:
            return MappedRegion(self, mmap.mmap(self._descriptor, size_bytes))
        except OSError as error:
            raise located(error, self.path) from None


class MappedRegion:
    """A part of a file as memory, while the file is open. What is put is in the file at once."""

    def __init__(self, file: WritableFile, mapping: mmap.mmap) -> None:
        self.path = file.path
        self.view = memoryview(mapping).toreadonly()
        self._file = file
        self._mapping = mapping

    def put(self, position: int, data: bytes) -> None:
        """Write within the region."""
        self._mapping[position : position + len(data)] = data

    def flush(self) -> None:
        """Return when everything that was put is on disk."""
        self._file.sync()  # covers mapped pages too, and lets other threads run, which `mmap.flush` does not

    def close(self) -> None:
        """Give the memory back; nobody may hold the view any more. Closing twice is harmless."""
        self.view.release()
        self._mapping.close()


class FileLock:
    """A lock file held, as a JVM holds it: a POSIX record lock over the whole file, gone with the process."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        try:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise located(error, path) from None
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let others have it. Releasing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _identity_of(descriptor: int, path: str) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError as error:
        raise located(error, path) from None
    return found.st_dev, found.st_ino


def located(error: OSError, path: str) -> OSError:
    """The error with the path in it, where the call only had a descriptor."""
    if error.filename is None:
        error.filename = path
    return error


def is_locked_elsewhere(descriptor: int) -> bool:
    """True if another process has the lock on a file, whose descriptor is closed."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
