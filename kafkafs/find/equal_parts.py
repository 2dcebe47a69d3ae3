"""The parts with which two copies of a log begin and that are equal, compared on several cores.

A part ends before the batch that holds an offset, in both copies. Both are asked for the same offsets, so the parts are
found in copies whose segments are cut differently too. Whether two parts are equal is decided by their bytes alone.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.find.batch_stream import BatchStream, pass_equal
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from storage.log import LogView

_PART_BYTES: Final = 32 * 1024 * 1024
"""About how long a part is in the first copy. Shorter logs have none: handing them to a thread would not pay."""
_THREADS_MAX: Final = 4


class EqualPart(NamedTuple):
    """A part of both copies: it ends before the batch that holds `end_offset`, and takes so many bytes."""

    end_offset: int
    size_bytes: int


def equal_parts(one: LogView, other: LogView, start: int) -> Iterator[EqualPart]:
    """Yield equal parts one after another from an offset on, up to the first that is not known to be equal.

    That one may differ, be damaged or unreadable in a copy, or be too short. Nothing is raised for it.
    """
    ends = _part_ends(one, start)
    pending: deque[tuple[int, Future[int | None]]] = deque()
    threads = min(os.cpu_count() or 1, _THREADS_MAX)
    pool = ThreadPoolExecutor(threads, "parts")  # a thread is started when it has something to do
    try:
        while True:
            for end in islice(ends, threads + 1 - len(pending)):
                pending.append((end, pool.submit(_equal_bytes, one, other, start, end)))
                start = end
            if not pending:
                return
            end, compared = pending.popleft()
            size_bytes = compared.result()
            if size_bytes is None:
                return
            yield EqualPart(end, size_bytes)
    finally:
        pool.shutdown(cancel_futures=True)  # the caller may close the logs next


def _part_ends(view: LogView, start: int) -> Iterator[int]:
    """Yield the offsets at which parts end. They assume that a segment's offsets are spread evenly over its bytes."""
    left_bytes = 0
    for segment, end, end_offset in view.slices(start):
        left_bytes += segment.size_bytes if end is None else end
        begin = max(segment.base_offset, start)
        parts, left_bytes = divmod(left_bytes, _PART_BYTES)
        for number in range(1, parts + 1):
            yield begin + (end_offset - begin) * number // parts


def _equal_bytes(one: LogView, other: LogView, start: int, end: int) -> int | None:
    """Return how many bytes the part takes in each copy; None unless it is equal."""
    try:
        with BatchStream(one, start, end) as first, BatchStream(other, start, end) as second:
            size_bytes = sum(pass_equal(first, second))
            return size_bytes if first.left_bytes == second.left_bytes == 0 else None
    except (StorageError, OSError):
        return None
