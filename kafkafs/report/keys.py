"""The keys that most records have, counted one by one in bounded memory.

The jobs of Spark count keys as Arrow columns. A report needs no Arrow, and looks at far fewer records.
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import Final, NamedTuple

KEYS_MAX: Final = 4096
KEY_BYTES_MAX: Final = 1024
"""What is kept of a key; longer ones that begin alike are counted as one."""


class CountedKey(NamedTuple):
    """A key that `records` records have, or up to `over` more."""

    key: bytes | None
    records: int
    over: int


class KeyCounts:
    """Counts keys, and keeps up to `keys_max` of them.

    When there are more, the rarest half is dropped, and a key that comes later may have been missed by as much as the
    most frequent of the dropped ones.
    """

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.records = 0
        self._keys_max = keys_max
        self._counts: dict[bytes | None, int] = {}
        self._missed: dict[bytes | None, int] = {}
        self._floor = 0

    def add(self, key: bytes | None, records: int = 1) -> None:
        """Count records with this key."""
        if key is not None and len(key) > KEY_BYTES_MAX:
            key = key[:KEY_BYTES_MAX]
        self.records += records
        if key in self._counts:
            self._counts[key] += records
            return
        if len(self._counts) >= self._keys_max:
            self._drop(self._keys_max // 2 or 1)
        self._counts[key] = records
        self._missed[key] = self._floor

    def _drop(self, number: int) -> None:
        rarest = nsmallest(number, self._counts, key=self._most)
        self._floor = max([self._floor, *map(self._most, rarest)])
        for key in rarest:
            del self._counts[key], self._missed[key]

    def _most(self, key: bytes | None) -> int:
        return self._counts[key] + self._missed[key]

    def merge(self, other: KeyCounts) -> None:
        """Add what was counted elsewhere."""
        for key in self._counts.keys() | other._counts.keys():
            missed = self._missed.get(key, self._floor) + other._missed.get(key, other._floor)
            self._counts[key] = self._counts.get(key, 0) + other._counts.get(key, 0)
            self._missed[key] = missed
        self._floor += other._floor
        self.records += other.records
        self._drop(max(0, len(self._counts) - self._keys_max))

    def top(self, number: int) -> list[CountedKey]:
        """Return the keys with most records, the most frequent first; a key that one record has is not among them."""
        found = nlargest(number, self._counts, key=lambda key: (self._counts[key], key or b""))
        return [CountedKey(key, self._counts[key], self._missed[key]) for key in found if self._counts[key] > 1]
