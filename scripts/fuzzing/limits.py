"""What reading one input may take, and what the whole process may."""

from __future__ import annotations

import os
import re
import resource
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fuzzing.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

INSTRUMENTED = "ASAN_OPTIONS" in os.environ
"""Whether the kernel that is used checks itself, which takes its time and address space without end."""

OUTPUT_BYTES_MAX = 1 << 20
"""The limit that is given to everything that takes one."""

SECONDS_MAX = 10.0 if INSTRUMENTED else 1.0
GROWTH_BYTES_MAX = 32 << 20
ADDRESS_SPACE_BYTES = 1 << 30  # beyond what a process has when it begins
LEAK_BYTES_MAX = 128 << 20


def within_limits(read: Callable[[], T]) -> T:
    """Return what `read` does, unless it takes too much time or memory for it."""
    peak = _peak_bytes()
    started = time.process_time()
    result = read()
    _check(time.process_time() - started, peak)
    return result


def each_within_limits(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, unless making all of them takes too much time. What the caller does with them does not count."""
    peak = _peak_bytes()
    seconds = 0.0
    iterator = iter(items)
    while True:
        started = time.process_time()
        made = list(islice(iterator, 1))
        seconds += time.process_time() - started
        if not made:
            break
        yield made.pop()
    _check(seconds, peak)


def _check(seconds: float, peak_before: int) -> None:
    if seconds > SECONDS_MAX:
        raise Finding("an input takes too long", f"{seconds:.1f} s")
    growth = _peak_bytes() - peak_before
    if growth > GROWTH_BYTES_MAX and not INSTRUMENTED:
        raise Finding("an input takes too much memory", f"{growth >> 20} MiB more than all before it")


class Growth:
    """How much more memory a process had than when this was made; its most is known after the block."""

    def __init__(self) -> None:
        # The greatest number of pages begins again at the present one.
        Path("/proc/self/clear_refs").write_text("5")
        self._before_bytes = resident_bytes()
        self.peak_bytes = 0

    def end(self) -> None:
        """Look now."""
        status = Path("/proc/self/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        self.peak_bytes = 0 if INSTRUMENTED else int(found[1]) * 1024 - self._before_bytes


@contextmanager
def peak_growth() -> Iterator[Growth]:
    """Measure by how much the process grows within the block at most."""
    growth = Growth()
    yield growth
    growth.end()


def confine_process() -> None:
    """Make allocations fail that no input should cause."""
    if not INSTRUMENTED:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ADDRESS_SPACE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def resident_bytes() -> int:
    """Return how much memory the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def check_leak(before: int) -> None:
    """Raise `Finding` if the process has much more memory than before."""
    growth = resident_bytes() - before
    if growth > LEAK_BYTES_MAX and not INSTRUMENTED:
        raise Finding("memory is not given back", f"{growth >> 20} MiB")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
