"""Chooses the partition of a record that names none, as Kafka's producers do.

A record with a key goes to the partition of the key's murmur2 hash, as with other producers. Records without a key go
to one partition until a batch of them is full, and then to the next.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_SEED: Final = 0x9747B28C
_FACTOR: Final = np.uint32(0x5BD1E995)
_STICKY_BYTES: Final = 16384  # Kafka's default for batch.size

Words = npt.NDArray[np.uint32]


def key_hashes(keys: pa.Array[Any]) -> npt.NDArray[np.int64]:
    """Return the hash of each key of a binary array, whose remainder is its partition; a null key's means nothing."""
    hashes = np.zeros(len(keys), dtype=np.int64)
    if len(keys) == 0:
        return hashes
    _, offset_buffer, data_buffer = keys.buffers()
    assert offset_buffer is not None
    offsets = np.frombuffer(memoryview(offset_buffer), dtype=np.int32)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(b"" if data_buffer is None else memoryview(data_buffer), dtype=np.uint8)
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        rows = data[offsets[chosen][:, None] + np.arange(length)]
        hashes[chosen] = _murmur2(rows) & 0x7FFFFFFF
    return hashes


def _murmur2(rows: npt.NDArray[np.uint8]) -> Words:
    """Kafka's murmur2 of byte strings of one length, a row each."""
    count, length = rows.shape
    hashed = np.full(count, _SEED ^ length, dtype=np.uint32)
    whole = length // 4 * 4
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4").reshape(count, whole // 4)
    for column in range(whole // 4):
        word = words[:, column] * _FACTOR
        word ^= word >> np.uint32(24)
        word *= _FACTOR
        hashed *= _FACTOR
        hashed ^= word
    if length > whole:
        for place in range(length - whole):
            hashed ^= rows[:, whole + place].astype(np.uint32) << np.uint32(8 * place)
        hashed *= _FACTOR
    hashed ^= hashed >> np.uint32(13)
    hashed *= _FACTOR
    hashed ^= hashed >> np.uint32(15)
    return hashed


class Sticky:
    """The partitions of records without a key, by topic; each begins with a random one."""

    def __init__(self, draw: Callable[[int], int] = random.randrange) -> None:
        self._draw = draw
        self._places: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, partitions: int, size_bytes: int) -> int:
        """Return the partition of the next record of that size."""
        place, stuck_bytes = self._places.get(topic) or (self._draw(partitions), 0)
        following = (place + 1) % partitions, 0
        stuck_bytes += size_bytes
        self._places[topic] = (place, stuck_bytes) if stuck_bytes < _STICKY_BYTES else following
        return place
