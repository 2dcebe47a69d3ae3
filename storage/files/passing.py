"""Files that are read once, beside a broker whose page cache is not to be taken from it."""

from __future__ import annotations

import ctypes
import os
from typing import Final

from storage.files.opened import ReadableFile, located

_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
_STEP_BYTES: Final = 32 * _PAGE_BYTES
_CACHESTAT: Final = 451  # the number of this system call, since Linux 6.5, on every processor
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    """`struct cachestat_range` of linux/mman.h."""

    _fields_ = (("position", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    """`struct cachestat` of linux/mman.h: numbers of pages."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "just_evicted"))


class PassingFile(ReadableFile):
    """A file open for reading that leaves the page cache as it was.

    It is read in steps of 128 KiB. What a step has brought into the cache is dropped from there at once, and the kernel
    reads no more than is asked for. A step of which something was in the cache leaves everything there. A kernel that
    does not say what is in the cache, before Linux 6.5, drops all that was read.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # what is read ahead would seem to have been there

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read bytes from `position`. The result is shorter only where the file ends."""
        parts: list[bytes] = []
        end = position + size_bytes
        while position < end:
            step_end = min(end, position - position % _STEP_BYTES + _STEP_BYTES)
            begin = position - position % _PAGE_BYTES
            pages_bytes = -((begin - step_end) // _PAGE_BYTES) * _PAGE_BYTES
            was_there = self._is_in_cache(begin, pages_bytes)
            part = super().read_at(position, step_end - position)
            if not was_there:
                self._drop(begin, pages_bytes)
            parts.append(part)
            if len(part) < step_end - position:
                break
            position = step_end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _is_in_cache(self, position: int, size_bytes: int) -> bool:
        """Return True if any page of a range is in memory."""
        pages = _Pages()
        asked = _Range(position, size_bytes)
        answer = _LIBC.syscall(_CACHESTAT, self._descriptor, ctypes.byref(asked), ctypes.byref(pages), 0)
        return bool(answer == 0 and pages.cached)

    def _drop(self, position: int, size_bytes: int) -> None:
        """Drop whole pages. The kernel keeps those that other processes have mapped."""
        try:
            os.posix_fadvise(self._descriptor, position, size_bytes, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise located(error, self.path) from None
