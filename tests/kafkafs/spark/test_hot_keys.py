"""Counting keys: exactly while there are few, and within what is said of them when there are many."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.spark.jobs import hot_keys
from kafkafs.spark.jobs.hot_keys import HotKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMED = st.one_of(st.none(), st.integers(0, 40).map(lambda number: b"%d" % number))
WAITING_MAX = 50  # few, so that keys are merged often
COUNTS = st.lists(st.tuples(NAMED, st.integers(1, 30)), max_size=200)


class CountedKey(NamedTuple):
    key: bytes | None
    records: int
    data_bytes: int
    over: int


@pytest.fixture(autouse=True, scope="module")
def merged_often() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot_keys, "_WAITING_MAX", WAITING_MAX)
        yield


def counted(counts: Iterable[tuple[bytes | None, int]], keys_max: int, bytes_max: int = 2**30) -> HotKeys:
    keys = HotKeys(keys_max, bytes_max)
    for key, records in counts:
        keys.add(pa.array([key] * records, pa.binary()), pa.array([10] * records, pa.int64()))
    keys.counted()
    return keys


def kept_of(keys: HotKeys) -> list[CountedKey]:
    return [CountedKey(**row) for row in keys.counted().to_pylist()]


def totals(counts: Iterable[tuple[bytes | None, int]]) -> Counter[bytes | None]:
    found: Counter[bytes | None] = Counter()
    for key, records in counts:
        found[key] += records
    return found


@given(COUNTS)
def test_few_keys_are_counted_exactly(counts: list[tuple[bytes | None, int]]) -> None:
    keys = counted(counts, keys_max=42)
    assert keys.floor == 0
    assert {each.key: each.records for each in kept_of(keys)} == totals(counts)
    assert all((each.over, each.data_bytes) == (0, 10 * each.records) for each in kept_of(keys))


@pytest.mark.property
@given(COUNTS, st.integers(2, 20), st.sampled_from([30, 2**30]))
def test_many_keys_are_counted_within_bounds(
    counts: list[tuple[bytes | None, int]], keys_max: int, bytes_max: int
) -> None:
    keys, due = counted(counts, keys_max, bytes_max), totals(counts)
    kept = {each.key: each for each in kept_of(keys)}
    assert len(kept) <= keys_max
    assert sum(len(key or b"") for key in kept) <= bytes_max
    for key, records in due.items():
        if key in kept:
            assert kept[key].records <= records <= kept[key].records + kept[key].over
            assert kept[key].data_bytes == 10 * kept[key].records
        else:
            assert records <= keys.floor
    if bytes_max > 30:
        assert keys.floor * (keys_max // 2 + 1) <= due.total()


@pytest.mark.property
@given(st.lists(COUNTS, max_size=5), st.integers(2, 20))
def test_the_bounds_of_parts_add_up(parts: list[list[tuple[bytes | None, int]]], keys_max: int) -> None:
    due = totals(each for part in parts for each in part)
    summaries = [counted(part, keys_max) for part in parts]
    floor = sum(keys.floor for keys in summaries)
    least: Counter[bytes | None] = Counter()
    above: Counter[bytes | None] = Counter()
    for keys in summaries:
        for each in kept_of(keys):
            least[each.key] += each.records
            above[each.key] += each.records + each.over - keys.floor
    for key, records in due.items():
        assert least[key] <= records <= floor + above[key]
