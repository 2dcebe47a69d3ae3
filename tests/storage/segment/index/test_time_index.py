"""The time index: what may be added, the slot that is kept for the end, and what is found in it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptIndexError, InvalidIndexEntryError
from storage.files import Files
from storage.segment.index.entries import TimeEntry
from storage.segment.index.time import TimeIndex, TimeIndexReader, TimeIndexWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = Files()
BASE = 50
T = 1_700_000_000_000
ENTRIES = [TimeEntry(T, 54), TimeEntry(T + 7, 59), TimeEntry(T + 8, 60)]
RAW = struct.pack(">qiqiqi", T, 4, T + 7, 9, T + 8, 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020}.timeindex"


@pytest.fixture
def index(path: Path) -> Iterator[TimeIndex]:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, 100)
    for entry in ENTRIES:
        index.maybe_append(*entry)
    yield index
    index.close()


def test_a_new_index(path: Path) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, 10_485_760)
    assert path.stat().st_size == 10_485_756
    assert 12 <= path.stat().st_blocks * 512 <= 8192  # what there is room for takes no space before it is used
    assert (index.entries_count, index.last_entry, index.is_full) == (0, (-1, BASE), False)
    assert index.lookup(T) == (-1, BASE)
    index.check()
    index.close()
    assert path.read_bytes() == b""


def test_entries_are_in_the_file_at_once(path: Path, index: TimeIndex) -> None:
    assert path.read_bytes() == RAW + bytes(96 - len(RAW))
    assert list(index) == ENTRIES
    assert index.last_entry == ENTRIES[-1]
    assert index.lookup(T + 6) == (T, 54)
    assert index.lookup(T - 1) == (-1, BASE)
    index.close()
    assert path.read_bytes() == RAW


@pytest.mark.parametrize("offset", [60, 61, 2**40])
def test_a_timestamp_that_is_there_already_is_no_entry(path: Path, index: TimeIndex, offset: int) -> None:
    before = path.read_bytes()
    index.maybe_append(T + 8, offset)
    index.maybe_append(T + 8, offset, final=True)
    assert path.read_bytes() == before
    assert index.last_entry == ENTRIES[-1]


@pytest.mark.parametrize(
    ("timestamp", "offset", "reason"),
    [
        (T + 9, 59, "offset is below the last one, 60"),
        (T + 8, 59, "offset is below the last one, 60"),
        (T + 7, 61, f"timestamp {T + 7} is below the last one, {T + 8}"),
        (-1, 61, f"timestamp -1 is below the last one, {T + 8}"),
        (T + 9, BASE + 2**31, "not within 2\\^31 - 1 of the base offset 50"),
    ],
)
@pytest.mark.parametrize("final", [False, True])
def test_an_entry_that_cannot_follow_is_refused(
    path: Path, index: TimeIndex, timestamp: int, offset: int, reason: str, final: bool
) -> None:
    before = path.read_bytes()
    with pytest.raises(InvalidIndexEntryError, match=reason) as raised:
        index.maybe_append(timestamp, offset, final=final)
    assert (raised.value.path, raised.value.offset) == (str(path), offset)
    assert path.read_bytes() == before
    assert index.last_entry == ENTRIES[-1]


def test_a_segment_without_timestamps_has_no_entries(path: Path) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, 100)
    index.maybe_append(-1, BASE + 3)
    index.maybe_append(-1, BASE + 9, final=True)
    assert index.entries_count == 0
    index.close()
    assert path.read_bytes() == b""


def test_the_first_entry_may_be_at_the_base_offset_but_not_below(path: Path) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, 100)
    with pytest.raises(InvalidIndexEntryError):
        index.maybe_append(T, BASE - 1)
    index.maybe_append(T, BASE)
    index.maybe_append(T + 1, BASE)
    index.maybe_append(T + 2, BASE + 2**31 - 1)
    assert [entry.offset - BASE for entry in index] == [0, 0, 2**31 - 1]
    index.close()


def test_the_last_slot_is_kept_for_the_final_entry(path: Path) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, 36)
    index.maybe_append(T, BASE)
    assert not index.is_full
    index.maybe_append(T + 1, BASE + 1)
    assert index.is_full
    for timestamp in (T + 1, T + 2):  # even what would add nothing, as in Kafka
        with pytest.raises(InvalidIndexEntryError, match="full: it has 3 slots"):
            index.maybe_append(timestamp, BASE + 2)
    index.maybe_append(T + 2, BASE + 2, final=True)
    index.maybe_append(T + 2, BASE + 2, final=True)
    with pytest.raises(InvalidIndexEntryError, match="all 3 slots are used"):
        index.maybe_append(T + 3, BASE + 3, final=True)
    index.close()
    assert path.read_bytes() == struct.pack(">qiqiqi", T, 0, T + 1, 1, T + 2, 2)


@pytest.mark.parametrize("size_bytes", [12, 23])
def test_with_a_single_slot_there_is_only_the_final_entry(path: Path, size_bytes: int) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, size_bytes)
    assert index.is_full
    index.maybe_append(T, BASE, final=True)
    index.close()
    assert path.read_bytes() == struct.pack(">qi", T, 0)


@pytest.mark.parametrize("index_size_slots", [1, 2, 100])
def test_a_first_record_of_1970_comes_back_where_its_index_was_trimmed(path: Path, index_size_slots: int) -> None:
    index = TimeIndexWriter.create(*FILES.parent(path), BASE, index_size_slots * 12)
    index.maybe_append(0, BASE, final=True)
    index.close()
    assert path.read_bytes() == bytes(12)
    for again in (
        TimeIndexWriter.open(*FILES.parent(path), BASE, 100),
        TimeIndexReader.open(*FILES.parent(path), BASE),
    ):
        assert (list(again), again.last_entry, again.ignored_slots) == ([(0, BASE)], (0, BASE), 0)
        if isinstance(again, TimeIndexWriter):
            again.close()
    assert path.read_bytes() == bytes(12)


@pytest.mark.parametrize("slots", [2, 3, 1000])
def test_zeros_in_front_of_a_zero_tail_are_the_tail(path: Path, slots: int) -> None:
    path.write_bytes(bytes(slots * 12))
    reading = TimeIndexReader.open(*FILES.parent(path), BASE)
    assert (list(reading), reading.last_entry, reading.ignored_slots) == ([], (-1, BASE), slots)
    index = TimeIndexWriter.open(*FILES.parent(path), BASE, 100)
    assert (list(index), index.last_entry, index.ignored_slots) == ([], (-1, BASE), slots)
    index.close()
    assert path.read_bytes() == b""


def test_zeros_in_front_of_an_entry_are_an_entry(path: Path) -> None:
    path.write_bytes(struct.pack(">qiqi", 0, 0, T, 1) + bytes(1200))
    index = TimeIndexWriter.open(*FILES.parent(path), BASE, 100)
    assert (list(index), index.ignored_slots) == ([(0, BASE), (T, BASE + 1)], 100)
    index.close()
    assert path.stat().st_size == 24


@pytest.mark.parametrize(("offset", "kept"), [(BASE, 0), (54, 0), (55, 1), (59, 1), (60, 2), (61, 3)])
def test_truncating_goes_by_the_offsets(path: Path, index: TimeIndex, offset: int, kept: int) -> None:
    index.truncate_to(offset)
    assert list(index) == ENTRIES[:kept]
    assert index.last_entry == (ENTRIES[kept - 1] if kept else (-1, BASE))
    assert path.read_bytes()[kept * 12 :].strip(b"\0") == b""
    index.maybe_append(T + 8, 61)
    assert index.last_entry == (T + 8, 61 if kept < 3 else 60)


def test_the_check_looks_at_the_ends(path: Path) -> None:
    path.write_bytes(RAW + struct.pack(">qi", T - 1, 11))
    with pytest.raises(CorruptIndexError, match=f"last timestamp {T - 1} is below the first, {T}") as raised:
        TimeIndexReader.open(*FILES.parent(path), BASE).check()
    assert raised.value.position == 36
    path.write_bytes(RAW + struct.pack(">qi", T + 9, -1))
    with pytest.raises(CorruptIndexError, match="below the base offset 50") as raised:
        TimeIndexReader.open(*FILES.parent(path), BASE).check()
    assert raised.value.offset == 49
    path.write_bytes(RAW[:-1])
    with pytest.raises(CorruptIndexError, match="35 bytes, which is not a multiple of 12"):
        TimeIndexReader.open(*FILES.parent(path), BASE).check()
    path.write_bytes(RAW + bytes(120))
    TimeIndexReader.open(*FILES.parent(path), BASE).check()


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**31 - 1)), max_size=30), st.integers(0, 2**62))
def test_an_index_is_what_its_rules_make_of_any_appends(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, int]], base_offset: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "property.timeindex"
    index = TimeIndexWriter.create(*FILES.parent(path), base_offset, 600)
    entries: list[TimeEntry] = []
    for timestamp, relative in appends:
        last = entries[-1] if entries else TimeEntry(-1, base_offset)
        if timestamp < last.timestamp or base_offset + relative < last.offset:
            with pytest.raises(InvalidIndexEntryError):
                index.maybe_append(timestamp, base_offset + relative)
            continue
        index.maybe_append(timestamp, base_offset + relative)
        if timestamp > last.timestamp:
            entries.append(TimeEntry(timestamp, base_offset + relative))
    assert list(index) == entries
    for entry in entries:
        for target in (entry.timestamp - 1, entry.timestamp, entry.timestamp + 1):
            below = [entry for entry in entries if entry.timestamp <= target]
            assert index.lookup(target) == (below[-1] if below else (-1, base_offset))
    cut = entries[len(entries) // 2].offset if entries else base_offset
    index.truncate_to(cut)
    assert list(index) == [entry for entry in entries if entry.offset < cut]
    index.close()
