"""The cache of decoded batches of all logs, and of the damage that was logged.

It never returns outdated batches. Batches are kept by segment, and a segment is one object for as long as its file only
grows; a segment that a compaction or a broker's truncation has replaced is never asked for again. Where a log of ours
is cut its segment goes on, and so the number of its truncations tells them apart.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from storage.budget import MEMORY

if TYPE_CHECKING:
    from kafkafs.tree.held_batch import HeldBatch
    from storage.budget import Budget
    from storage.errors import CorruptBatchError
    from storage.segment import Segment

CACHE_BYTES: Final = 32 * 1024 * 1024
_SHARE_MAX: Final = 4  # no batch takes more than this part of it
_PLACES_MAX: Final = 10_000

_Key: TypeAlias = "tuple[Segment, int]"

_first_offset = attrgetter("first_offset")

logger = logging.getLogger(__name__)


class BatchCache:
    """The decoded batches that were used last, up to a number of bytes in total.

    Users of one cache need the same isolation: they see the same records of a batch. Any thread may use it.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES, *, budget: Budget = MEMORY) -> None:
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes
        self._lock = Lock()
        self._shelves: dict[_Key, list[HeldBatch]] = {}  # the batches of a segment in the order of their offsets
        self._recent: OrderedDict[HeldBatch, _Key] = OrderedDict()  # the one used last at the end
        self._places: OrderedDict[tuple[str | None, int | None], None] = OrderedDict()
        self._account = budget.account(self.shrink)

    @property
    def size_bytes(self) -> int:
        """Return how many bytes are in use."""
        return self._limit_bytes - self._left_bytes

    def get(self, segment: Segment, truncations: int, offset: int) -> HeldBatch | None:
        """Return the segment's batch that holds the offset, if it is cached."""
        with self._lock:
            shelf = self._shelves.get((segment, truncations))
            if shelf is None:
                return None
            index = bisect_right(shelf, offset, key=_first_offset) - 1
            if index < 0:
                return None
            held = shelf[index]
            if offset > held.last_offset:
                return None
            self._recent.move_to_end(held)
            return held

    def put(self, held: HeldBatch, truncations: int) -> None:
        """Keep a batch for a while, unless it is too large."""
        if held.size_bytes > self._limit_bytes // _SHARE_MAX:
            return
        key = (held.segment, truncations)
        with self._lock:
            if self._has(key, held.first_offset):
                return  # another thread was faster
            while held.size_bytes > self._left_bytes or not self._account.keep(held.size_bytes):
                if not self._recent:
                    return
                self._drop_oldest()
            insort(self._shelves.setdefault(key, []), held, key=_first_offset)
            self._recent[held] = key
            self._left_bytes -= held.size_bytes

    def shrink(self, size_bytes: int) -> None:
        """Drop the batches that were not used for longest, as many bytes of them or all."""
        with self._lock:
            left_bytes = self._left_bytes + size_bytes
            while self._recent and self._left_bytes < left_bytes:
                self._drop_oldest()

    def report(self, error: CorruptBatchError) -> None:
        """Log damage, each place once."""
        place = (error.path, error.position)
        with self._lock:
            if place in self._places:
                return
            self._places[place] = None
            if len(self._places) > _PLACES_MAX:
                self._places.popitem(last=False)
        logger.warning("damage in the log: %s", error)

    def _has(self, key: _Key, first_offset: int) -> bool:
        shelf = self._shelves.get(key, [])
        index = bisect_left(shelf, first_offset, key=_first_offset)
        return index < len(shelf) and shelf[index].first_offset == first_offset

    def _drop_oldest(self) -> None:
        held, key = self._recent.popitem(last=False)
        shelf = self._shelves[key]
        del shelf[bisect_left(shelf, held.first_offset, key=_first_offset)]
        if not shelf:
            del self._shelves[key]
        self._left_bytes += held.size_bytes
        self._account.give(held.size_bytes)
