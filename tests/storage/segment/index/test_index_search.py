"""The kernel's search in index entries, against a plain scan."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.record.kernel.search import floor_offset, floor_timed_offset, floor_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

OFFSETS = st.integers(0, 2**31 - 1)
TIMESTAMPS = st.integers(-(2**63), 2**63 - 1)


def brute_force(keys: Sequence[int], target: int) -> int:
    return max((slot for slot, key in enumerate(keys) if key <= target), default=-1)


def targets_around(keys: Sequence[int]) -> set[int]:
    return {near for key in keys for near in (key - 1, key, key + 1) if -(2**63) <= near < 2**63} | {-1, 0, 2**63 - 1}


def offset_entries(keys: Sequence[int]) -> bytes:
    return b"".join(struct.pack(">ii", key, slot) for slot, key in enumerate(keys))


def time_entries(keys: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *key) for key in keys)


@pytest.mark.property
@given(st.sets(OFFSETS, max_size=60).map(sorted), st.binary(max_size=30))
def test_offsets_are_found_whatever_lies_behind_the_entries(keys: list[int], rest: bytes) -> None:
    data = offset_entries(keys) + rest
    for target in targets_around(keys):
        assert floor_offset(data, len(keys), target) == brute_force(keys, target)


@pytest.mark.property
@given(st.sets(TIMESTAMPS, max_size=60).map(sorted), st.data())
def test_timestamps_and_their_offsets_are_found(timestamps: list[int], data: st.DataObject) -> None:
    offsets = sorted(data.draw(st.sets(OFFSETS, min_size=len(timestamps), max_size=len(timestamps))))
    entries = time_entries(list(zip(timestamps, offsets, strict=True)))
    for target in targets_around(timestamps):
        assert floor_timestamp(entries, len(timestamps), target) == brute_force(timestamps, target)
    for target in targets_around(offsets):
        assert floor_timed_offset(entries, len(offsets), target) == brute_force(offsets, target)


@pytest.mark.parametrize("count", [1023, 1024, 1025, 1026, 5000])
def test_both_sides_of_the_warm_section_of_an_offset_index(count: int) -> None:
    keys = [slot * 3 + 1 for slot in range(count)]
    data = offset_entries(keys)
    for target in range(count * 3 + 3):
        assert floor_offset(data, count, target) == (target - 1) // 3 if target <= keys[-1] else count - 1


@pytest.mark.parametrize("count", [681, 682, 683, 684, 5000])
def test_both_sides_of_the_warm_section_of_a_time_index(count: int) -> None:
    data = time_entries([(10**12 + slot * 3, slot * 3 + 1) for slot in range(count)])
    for step in range(count * 3 + 3):
        expected = min(step // 3, count - 1)
        assert floor_timestamp(data, count, 10**12 + step) == expected
        assert floor_timed_offset(data, count, step + 1) == expected
    assert floor_timestamp(data, count, 10**12 - 1) == -1


def test_fields_are_signed_and_as_wide_as_they_are_stored() -> None:
    assert floor_offset(offset_entries([-5, 2**31 - 1]), 2, -1) == 0
    assert floor_offset(offset_entries([-5, 2**31 - 1]), 2, 2**63 - 1) == 1
    assert floor_timestamp(time_entries([(-(2**63), 0), (2**63 - 1, 1)]), 2, 2**63 - 2) == 0
    assert floor_timed_offset(time_entries([(0, -(2**31)), (1, 0)]), 2, -1) == 0


@pytest.mark.parametrize("count", [-1, 3])
def test_a_count_beyond_the_buffer_is_refused(count: int) -> None:
    with pytest.raises(IndexError):
        floor_offset(bytes(23), count, 0)
    with pytest.raises(IndexError):
        floor_timestamp(bytes(35), count, 0)
    with pytest.raises(IndexError):
        floor_timed_offset(bytes(35), count, 0)


def test_a_buffer_is_only_borrowed() -> None:
    data = bytearray(offset_entries([1, 2, 3]))
    assert floor_offset(memoryview(data), 3, 2) == 1
    with pytest.raises(IndexError):
        floor_offset(data, 4, 2)
    data.extend(b"more")  # would be a BufferError if anybody still had it
