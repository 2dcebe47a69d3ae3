"""Logs of very many segments: going through them all, and finding a time without that."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, TypeVar

from storage.budget import MEMORY
from storage.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from storage.segment.segment import Segment

T = TypeVar("T")

MANY_SEGMENTS: Final = 1000
"""How many segments are gone through between two requests: with a look at the file of each, some 50 milliseconds."""


def check_may_go_through(count: int) -> None:
    """Raise `MustWaitError` for many segments in a thread that may do nothing that takes long."""
    if count > MANY_SEGMENTS:
        MEMORY.check_lease()


def one_by_one(those: Iterable[T]) -> Iterator[T]:
    """Iterate over segments, or what stands for them, each of which is opened or looked at.

    Raises `MustWaitError` after many of them in a thread that may do nothing that takes long.
    """
    for number, each in enumerate(those):
        if number == MANY_SEGMENTS:
            MEMORY.check_lease()
        yield each


class TimeReach:
    """Which segments of a view can have a record at a time or later. Any thread may ask.

    The largest timestamp up to each closed segment is kept as far as it was asked for, so a later time is found without
    another look at the segments before it.
    """

    __slots__ = ("_highest", "_segments", "_untimed")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        # Threads that extend these at the same time write the same entries.
        self._highest: dict[int, int] = {}  # the largest timestamp of a segment and all before it, by its number
        self._untimed: dict[int, None] = {}  # the numbers of closed segments with batches and without a timestamp

    def candidates(self, timestamp: int) -> Iterator[Segment]:
        """Iterate over these segments, the first one first.

        A time index without an entry may be a lost one, so a segment without a timestamp is one if it has batches.
        """
        first = self._first_with(timestamp)
        for number in sorted(each for each in tuple(self._untimed) if each < first):
            yield self._segments[number]
        for number in one_by_one(range(first, len(self._segments))):
            segment = self._segments[number]
            largest, _ = segment.largest_timestamp
            if largest >= timestamp or (largest < 0 and segment.size_bytes):
                yield segment

    def _first_with(self, timestamp: int) -> int:
        """Return the number of the first closed segment whose largest timestamp is not below; of the last one if none.

        All untimed segments before it are known then.
        """
        highest = self._highest
        known = len(highest)
        first = bisect_left(range(known), timestamp, key=highest.__getitem__)
        if first < known:
            return first
        for number in one_by_one(range(known, len(self._segments) - 1)):
            segment = self._segments[number]
            largest, _ = segment.largest_timestamp
            if largest < 0 and segment.size_bytes:
                self._untimed[number] = None
            highest[number] = max(largest, highest[number - 1] if number else NO_TIMESTAMP)
            if highest[number] >= timestamp:
                return number
        return max(len(self._segments) - 1, 0)
