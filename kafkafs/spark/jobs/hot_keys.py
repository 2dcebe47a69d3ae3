"""Counts the records of each key in bounded memory: exactly while there are few keys, else only the frequent ones.

Counts have a lower and an upper bound, also those of keys that are not kept. The bounds of parts add up: a key's bounds
over all records are the sums of its bounds in each part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS_MAX: Final = 8192
KEY_BYTES_MAX: Final = 32 * 1024 * 1024


class CountedKey(NamedTuple):
    """A key, None for records without one, that occurs in `records` records or in up to `over` more.

    `data_bytes` are those of the keys and values of the counted records.
    """

    key: bytes | None
    records: int
    data_bytes: int
    over: int


class HotKeys:
    """Counts keys, and keeps up to `keys_max` of them with up to `bytes_max` bytes.

    When there are more, the rarest half is dropped. A key that is not kept occurs in up to `floor` records: 0 while all
    are kept, and never more than all records divided by half of `keys_max`, unless keys are very long.
    """

    def __init__(self, keys_max: int = KEYS_MAX, bytes_max: int = KEY_BYTES_MAX) -> None:
        self.floor = 0
        self._keys_max = keys_max
        self._bytes_max = bytes_max
        self._kept: dict[bytes | None, CountedKey] = {}
        self._kept_bytes = 0

    def add(self, key: bytes | None, records: int, data_bytes: int) -> None:
        """Add this many records of a key."""
        known = self._kept.get(key)
        if known is None:
            self._kept[key] = CountedKey(key, records, data_bytes, self.floor)
            self._kept_bytes += _size_bytes(key)
            if len(self._kept) > self._keys_max or self._kept_bytes > self._bytes_max:
                self._prune()
        else:
            self._kept[key] = CountedKey(key, known.records + records, known.data_bytes + data_bytes, known.over)

    def counted(self) -> Iterator[CountedKey]:
        """Yield the keys that are kept, in no order."""
        yield from self._kept.values()

    def _prune(self) -> None:
        """Drop the rarest keys, and all that may be as rare."""
        by_count = sorted(self._kept.values(), key=_most, reverse=True)
        keys_left, bytes_left, kept = self._keys_max // 2, self._bytes_max // 2, 0
        for each in by_count:
            bytes_left -= _size_bytes(each.key)
            if kept == keys_left or bytes_left < 0:
                break
            kept += 1
        self.floor = _most(by_count[kept])
        self._kept = {each.key: each for each in by_count[:kept] if _most(each) > self.floor}
        self._kept_bytes = sum(_size_bytes(key) for key in self._kept)


def _most(counted: CountedKey) -> int:
    return counted.records + counted.over


def _size_bytes(key: bytes | None) -> int:
    return len(key or b"")
