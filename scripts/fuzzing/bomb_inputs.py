"""Batches that are small on disk and large in memory, in bytes or in objects, each of a size and make at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from hostile import bombs

from storage.testing.codec import CODECS, GZIP, LZ4, NONE, SNAPPY

BYTES_LOG2: Final = (14.0, 26.5)
"""How large a batch is once it is decoded: from 16 KiB, which any budget has, to some 90 MiB, which the fuzzer's has
not."""
STORED_LOG2_MAX: Final = 23.0
LEGACY_ENTRY_BYTES: Final = {0: 26, 1: 34}
EMPTY_RECORD_BYTES: Final = 7
EMPTY_HEADER_BYTES: Final = 2
LEGACY_SHARE: Final = 0.25
LEGACY_CODECS: Final = (GZIP, SNAPPY, LZ4)


@dataclass(frozen=True, slots=True)
class BombInput:
    """One batch, what it is said to hold, and about how many bytes that is; `choice` says how it is read."""

    kind: str
    data: bytes
    records: int
    headers: int
    decoded_bytes: int
    choice: int


def bomb_input(seed: int, index: int) -> BombInput:
    """Return the bomb of that number."""
    rng = Random(f"{seed} bomb {index}")
    if rng.random() < LEGACY_SHARE:
        return _legacy(rng)
    codec = rng.choice(CODECS)
    size_bytes = _size_bytes(rng, codec)
    chance = rng.random()
    records, headers = 1, 0
    if chance < 0.25:
        kind, data = "a value", bombs.value_batch(codec, size_bytes)
    elif chance < 0.5:
        records = size_bytes // EMPTY_RECORD_BYTES
        kind, data = "records", bombs.records_batch(codec, records)
    elif chance < 0.75:
        headers = size_bytes // EMPTY_HEADER_BYTES
        kind, data = "headers", bombs.headers_batch(codec, headers)
    else:
        each = int(2 ** rng.uniform(0, 13))
        records = size_bytes // (EMPTY_RECORD_BYTES + EMPTY_HEADER_BYTES * each) + 1
        headers = records * each
        kind, data = "records with headers", bombs.records_batch(codec, records, headers=each)
    return BombInput(f"{kind} in {bombs.NAMES[codec]}", data, records, headers, size_bytes, rng.randrange(1 << 16))


def _legacy(rng: Random) -> BombInput:
    magic, codec = rng.choice((0, 1)), rng.choice(LEGACY_CODECS)
    size_bytes = _size_bytes(rng, codec)
    records = 1
    if rng.random() < 0.5:
        kind, data = "a value", bombs.legacy_value(magic, codec, size_bytes)
    else:
        records = size_bytes // LEGACY_ENTRY_BYTES[magic]
        kind, data = "records", bombs.legacy_records(magic, codec, records)
    what = f"{kind} in {bombs.NAMES[codec]} of version {magic}"
    return BombInput(what, data, records, 0, size_bytes, rng.randrange(1 << 16))


def _size_bytes(rng: Random, codec: int) -> int:
    least, most = BYTES_LOG2
    return int(2 ** rng.uniform(least, STORED_LOG2_MAX if codec == NONE else most))
