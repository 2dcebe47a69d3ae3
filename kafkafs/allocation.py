"""Memory that is freed stays with the process, for the next batch to decode.

glibc maps large blocks of their own and unmaps them when they are freed, so the kernel clears the same megabytes for
batch after batch: lz4 decompresses at a third of its speed then. A process that decodes in bulk says at its start that
it keeps what it frees: the mount, the command line, Spark's workers. The library leaves that to its host. Other C
libraries than glibc have no such calls, and nothing changes there.

Python has an allocator of its own for small objects, in megabytes of which it gives back only those that are empty:
one long-lived object in each keeps all that a large batch once took. A mount lives for months, so its objects come from
glibc's malloc, which gives back any page. That is decided before Python starts, by its environment.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most freed memory that is kept at the heap's end, where most of it is."""
_HEAP_BYTES_MAX: Final = 32 * 1024 * 1024  # larger blocks are mapped; the most that glibc accepts
_SHARED_HEAP_BYTES_MAX: Final = 3 * 1024 * 1024
_NEW_OBJECTS: Final = 20_000
_KEPT_OBJECTS: Final = 100_000

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_is_seldom = False  # once `seldom_look_for_cycles` was called

_ALLOCATOR_VARIABLE: Final = "PYTHONMALLOC"

# The parameters of glibc's mallopt.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8


def keep_freed_memory() -> None:
    """Keep freed memory, in one place for all threads. Call it before there are several threads.

    Threads come and go with buffers of any size, and an arena for each would keep its peak. Allocations under Python's
    lock do not contend.
    """
    with suppress(AttributeError, OSError):
        mallopt = _libc().mallopt
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_MMAP_THRESHOLD, _HEAP_BYTES_MAX)
        mallopt(_ARENA_MAX, 1)


def give_back_large_blocks() -> None:
    """Give freed blocks of megabytes back to the system at once, which a process that many use needs its memory for."""
    with suppress(AttributeError, OSError):
        _libc().mallopt(_MMAP_THRESHOLD, _SHARED_HEAP_BYTES_MAX)


def with_malloc(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process whose objects come from glibc's malloc, unless it names an allocator."""
    return {_ALLOCATOR_VARIABLE: "malloc", **environment} if _has_glibc() else dict(environment)


def begin_again_with_malloc() -> None:
    """Begin this process again as one whose objects come from malloc, unless it is one or was told otherwise.

    A process that may not run Python's executable any more goes on as it is.
    """
    if _ALLOCATOR_VARIABLE not in os.environ and _has_glibc():
        with suppress(OSError):
            os.execve(sys.executable, sys.orig_argv, with_malloc(os.environ))  # noqa: S606 -- our own command


def seldom_look_for_cycles() -> None:
    """Let Python look for cycles only once there are many new objects, and not among those that there are now.

    Nearly nothing makes cycles, and looking among a million producers took longer than reading them.
    """
    global _is_seldom  # noqa: PLW0603 -- of the process
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    _is_seldom = True


@contextmanager
def without_looks_for_cycles() -> Iterator[None]:
    """Let Python look for no cycles while many objects are made, nor among those that are kept: others wait for a look.

    It does nothing in a process that looks as often as Python does by itself.
    """
    if not _is_seldom:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _KEPT_OBJECTS:
            gc.freeze()
        gc.enable()


def give_back_freed_memory() -> None:
    """Give freed memory back to the system. Any thread may call this; others that allocate wait for milliseconds."""
    with suppress(AttributeError, OSError):
        _libc().malloc_trim(0)


def give_back_beyond(bytes_max: int, size_bytes: int) -> None:
    """Give freed memory back if the process would have more than `bytes_max` once it has taken so many bytes."""
    if _taken_bytes() + size_bytes > bytes_max:
        give_back_freed_memory()


def _taken_bytes() -> int:
    """Return how many bytes of memory the process has to itself."""
    with _STATM.open() as statm:
        _, resident, shared, *_ = map(int, statm.read().split())
    return (resident - shared) * _PAGE_BYTES


def _has_glibc() -> bool:
    return hasattr(_libc(), "malloc_trim")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
