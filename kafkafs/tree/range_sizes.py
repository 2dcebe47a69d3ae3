"""The counted sizes of ranges, so that `stat` counts none twice.

A size is never outdated: it is not found once segments were replaced or the log was cut.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.patience import Looks

if TYPE_CHECKING:
    from kafkafs.locator.formats import Format
    from storage.segment import Segment

_RANGES_MAX: Final = 64


class RangeKey(NamedTuple):
    """Which records in which form, and the segments with them."""

    form: Format
    start: int
    end: int
    segments: tuple[Segment, ...]
    truncations: int


class RangeSize(NamedTuple):
    """A counted range: the size is None if damage keeps it unknown."""

    size_bytes: int | None
    skipped: int


class RangeSizes:
    """The sizes of the ranges of one log that were asked for last. Any thread may use this."""

    def __init__(self) -> None:
        self.looks = Looks()
        self._lock = Lock()
        self._sizes: OrderedDict[RangeKey, RangeSize] = OrderedDict()

    def get(self, key: RangeKey) -> RangeSize | None:
        """Return what is known of a range."""
        with self._lock:
            found = self._sizes.get(key)
            if found is not None:
                self._sizes.move_to_end(key)
            return found

    def put(self, key: RangeKey, size: RangeSize) -> None:
        """Remember what was counted."""
        with self._lock:
            self._sizes[key] = size
            self._sizes.move_to_end(key)
            if len(self._sizes) > _RANGES_MAX:
                self._sizes.popitem(last=False)
