"""Counted keys: every true count lies within the bounds, however few keys are kept, and also of parts put together."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from kafkafs.report.keys import KeyCounts

KEYS = st.lists(st.sampled_from([None, *(bytes([number]) for number in range(20))]), max_size=200)


@example([None, b"0", b"1"], [b"2", None, None], 3)  # a key that both have was dropped between its two halves
@given(KEYS, KEYS, st.integers(2, 30))
def test_the_bounds_hold(one: list[bytes | None], other: list[bytes | None], keys_max: int) -> None:
    counts, more = KeyCounts(keys_max), KeyCounts(keys_max)
    for key in one:
        counts.add(key)
    for key in other:
        more.add(key)
    counts.merge(more)
    true = Counter(one + other)
    assert counts.records == len(one) + len(other)
    found = counts.top(30)
    assert len(found) <= keys_max
    for key in found:
        assert key.records <= true[key.key] <= key.records + key.over
    if len(true) <= keys_max:
        assert {key.key: key.records for key in found} == {key: number for key, number in true.items() if number > 1}


def test_long_keys_are_kept_short() -> None:
    counts = KeyCounts()
    counts.add(b"k" * 5000 + b"1")
    counts.add(b"k" * 5000 + b"2")
    (key,) = counts.top(1)
    assert key.key is not None
    assert (len(key.key), key.records) == (1024, 2)
