"""Finding the segments that reach a time, over segments that say only how far they reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hypothesis import given
from hypothesis import strategies as st

from storage.log.many_segments import TimeReach
from storage.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.segment.segment import Segment


@dataclass(eq=False)
class Reaching:
    """A segment with a largest timestamp, which counts how often it was asked."""

    timestamp: int
    size_bytes: int = 1
    asked: int = 0

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        self.asked += 1
        return self.timestamp, 0


def candidates(reach: TimeReach, timestamp: int) -> list[Reaching]:
    return cast("list[Reaching]", list(reach.candidates(timestamp)))


def reach_of(segments: Sequence[Reaching]) -> TimeReach:
    return TimeReach(cast("Sequence[Segment]", segments))


@given(
    st.lists(st.tuples(st.integers(NO_TIMESTAMP, 20), st.sampled_from([0, 1])), max_size=12),
    st.lists(st.integers(0, 22), min_size=1, max_size=6),
)
def test_every_segment_is_found_that_can_have_the_time(parts: list[tuple[int, int]], timestamps: list[int]) -> None:
    segments = [Reaching(*part) for part in parts]
    reach = reach_of(segments)
    for timestamp in timestamps:
        assert candidates(reach, timestamp) == [
            each for each in segments if each.timestamp >= timestamp or (each.timestamp < 0 and each.size_bytes)
        ]


def test_many_times_of_many_segments_ask_each_segment_a_few_times() -> None:
    segments = [Reaching(number) for number in range(2000)]
    reach = reach_of(segments)
    for timestamp in range(2000):
        assert next(reach.candidates(timestamp)) is segments[timestamp]  # type: ignore[comparison-overlap]
    assert sum(segment.asked for segment in segments) < 4 * len(segments)
