"""Times of a report: nothing is lost or counted twice, the buckets are few, and what cannot be right is left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.report.timeline import DAY_MS, HOUR_MS, NewestDay, Timeline, Written

NOW_MS = 1_700_000_000_000
MINUTES = st.integers(0, 5 * 365 * 24 * 60)


@given(st.lists(st.tuples(MINUTES, MINUTES, st.integers(0, 10**9)), max_size=30))
def test_the_sum_stays_and_the_buckets_are_few(parts: list[tuple[int, int, int]]) -> None:
    timeline = Timeline()
    for minutes, span, size in parts:
        first_ms = NOW_MS - 60_000 * (minutes + span)
        timeline.add(Written(first_ms, first_ms + 60_000 * span, size, size))
    buckets = timeline.buckets()
    assert len(buckets) <= 100
    assert sum(bucket.size_bytes for bucket in buckets) == pytest.approx(sum(size for _, _, size in parts), abs=100)
    starts = [bucket.start_timestamp for bucket in buckets]
    assert all(after - before == buckets[0].span_ms for before, after in pairwise(starts))


def test_the_newest_day_has_what_was_written_in_it() -> None:
    day = NewestDay(NOW_MS)
    day.add("old", [[Written(NOW_MS - 9 * DAY_MS, NOW_MS - 8 * DAY_MS, 500, 5)]])
    day.add(
        "both",
        [[Written(NOW_MS - 2 * DAY_MS, NOW_MS - DAY_MS, 1000, 10), Written(NOW_MS - HOUR_MS, NOW_MS, 3_000_000, 3)]],
    )
    assert day.newest_ms == NOW_MS
    buckets = day.buckets()
    assert len(buckets) == 96
    assert sum(bucket.size_bytes for bucket in buckets) == pytest.approx(3_000_000, abs=5)
    assert day.of_topics() == {"both": (3_000_000, 3)}


def test_timestamps_that_cannot_be_right_hide_nothing() -> None:
    day = NewestDay(NOW_MS)
    day.add(
        "t",
        [[Written(NOW_MS * 1000, NOW_MS * 1000, 7, 7)], [Written(0, NOW_MS, 7, 7)], [Written(NOW_MS, NOW_MS, 1, 1)]],
    )
    assert (day.doubtful_segments, day.newest_ms) == (2, NOW_MS)
    assert sum(bucket.size_bytes for bucket in day.growth.buckets()) == 1
    assert NewestDay(NOW_MS).buckets() == ()
