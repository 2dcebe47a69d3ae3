"""Damage is repeatable, and what the strategies call damaged does reach the decoders."""

from __future__ import annotations

import random
from collections import Counter

from storage.errors import CorruptBatchError
from storage.testing.codec import OracleRecord, batch_of, decode_batch, encode_batch, resealed
from storage.testing.mutations import mutate

BATCH = encode_batch(
    batch_of([OracleRecord(offset, 1_700_000_000_000 + offset, b"key", b"value" * offset) for offset in range(8)])
)


def test_the_same_seed_does_the_same_damage() -> None:
    first, second = random.Random(7), random.Random(7)
    damaged = [mutate(first, BATCH) for _ in range(500)]
    assert damaged == [mutate(second, BATCH) for _ in range(500)]
    assert len(set(damaged)) > 400
    assert sum(data != BATCH for data in damaged) > 450


def test_hardly_any_data_can_be_damaged_too() -> None:
    rng = random.Random(7)
    assert mutate(rng, b"") == b""
    for _ in range(200):
        mutate(rng, b"a")


def test_resealed_damage_reaches_the_records() -> None:
    rng = random.Random(7)
    outcomes: Counter[str] = Counter()
    for _ in range(1000):
        try:
            decode_batch(resealed(mutate(rng, BATCH)))
            outcomes["decoded"] += 1
        except CorruptBatchError as error:
            outcomes[type(error).__name__] += 1
    assert outcomes["decoded"] > 100
    assert outcomes["MalformedRecordsError"] > 100
    assert outcomes["FramingError"] > 10
