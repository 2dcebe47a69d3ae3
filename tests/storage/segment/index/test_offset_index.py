"""The offset index: what may be added, when it is full, how long its file is, and what is found in it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import ConfigError, CorruptIndexError, InvalidIndexEntryError
from storage.files import Files
from storage.segment.index.entries import OffsetEntry
from storage.segment.index.offset import OffsetIndex, OffsetIndexReader, OffsetIndexWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = Files()
BASE = 1000
ENTRIES = [OffsetEntry(1004, 300), OffsetEntry(1009, 4500), OffsetEntry(1010, 9000), OffsetEntry(1400, 14000)]
RAW = struct.pack(">8i", 4, 300, 9, 4500, 10, 9000, 400, 14000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020}.index"


@pytest.fixture
def index(path: Path) -> Iterator[OffsetIndex]:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 100)
    for entry in ENTRIES:
        index.append(*entry)
    yield index
    index.close()


def test_a_new_index_has_its_full_size_and_the_space_of_its_entries_for_real(path: Path) -> None:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 1_000_001)
    assert path.stat().st_size == 1_000_000
    assert 8 <= path.stat().st_blocks * 512 <= 8192
    assert path.read_bytes() == bytes(1_000_000)
    assert (index.entries_count, index.last_offset, index.is_full, list(index)) == (0, BASE, False, [])
    assert index.lookup(BASE + 5) == (BASE, 0)
    index.check()
    index.close()
    assert path.read_bytes() == b""


def test_space_is_allocated_a_step_ahead_of_what_is_used(path: Path) -> None:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 1_000_001)
    for number in range(1, 10_001):
        index.append(BASE + number, number)
        assert path.stat().st_size == 1_000_000
        assert number * 8 <= path.stat().st_blocks * 512 <= number * 8 + 64 * 1024 + 8192
    index.reserve(100_000)
    assert path.stat().st_blocks * 512 >= 880_000
    index.reserve(1_000_000)
    assert path.stat().st_blocks * 512 >= 1_000_000
    assert path.stat().st_size == 1_000_000
    index.close()
    assert path.stat().st_size == 80_000


def test_making_an_index_empties_the_one_that_is_there(path: Path, index: OffsetIndex) -> None:
    index.close()
    again = OffsetIndexWriter.create(*FILES.parent(path), BASE, 100)
    assert path.read_bytes() == bytes(96)
    assert again.entries_count == 0
    again.close()


def test_an_index_without_room_for_an_entry_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="7 bytes"):
        OffsetIndexWriter.create(*FILES.parent(path), BASE, 7)


def test_entries_are_in_the_file_at_once(path: Path, index: OffsetIndex) -> None:
    assert path.read_bytes() == RAW + bytes(96 - len(RAW))
    assert list(index) == ENTRIES
    assert (index.entries_count, index.last_offset) == (4, 1400)


@pytest.mark.parametrize(
    ("offset", "position", "reason"),
    [
        (1400, 20000, "not above the last one, 1400"),
        (1009, 20000, "not above the last one, 1400"),
        (BASE + 2**31, 20000, "not within 2\\^31 - 1 of the base offset 1000"),
        (1500, -1, "position -1"),
        (1500, 2**31, "position 2147483648"),
    ],
)
def test_an_entry_that_cannot_follow_is_refused(
    path: Path, index: OffsetIndex, offset: int, position: int, reason: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(InvalidIndexEntryError, match=reason) as raised:
        index.append(offset, position)
    assert (raised.value.path, raised.value.offset) == (str(path), offset)
    assert path.read_bytes() == before
    assert list(index) == ENTRIES


def test_the_ends_of_the_range_of_offsets(path: Path) -> None:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 100)
    with pytest.raises(InvalidIndexEntryError):
        index.append(BASE - 1, 1)
    index.append(BASE, 1)  # the first may be at the base offset itself
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert path.read_bytes()[:16] == struct.pack(">4i", 0, 1, 2**31 - 1, 2**31 - 1)
    assert index.lookup(2**63 - 1) == (BASE + 2**31 - 1, 2**31 - 1)
    index.close()


def test_an_index_is_full_when_every_slot_is_used(path: Path) -> None:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 24)
    for step in range(3):
        assert not index.is_full
        index.append(BASE + step, step + 1)
    assert index.is_full
    with pytest.raises(InvalidIndexEntryError, match="full: it has 3 slots"):
        index.append(BASE + 3, 4)
    index.close()
    assert path.stat().st_size == 24


def test_trimming_and_expanding_keep_the_entries(path: Path, index: OffsetIndex) -> None:
    index.trim()
    assert path.read_bytes() == RAW
    assert index.is_full
    assert index.lookup(1009) == (1009, 4500)
    index.trim()
    index.expand()
    index.expand()
    assert path.read_bytes() == RAW + bytes(96 - len(RAW))
    assert path.stat().st_blocks * 512 >= 96
    assert not index.is_full
    index.append(1500, 20000)
    assert list(index) == [*ENTRIES, (1500, 20000)]


def test_an_empty_index_can_be_trimmed_and_expanded(path: Path) -> None:
    index = OffsetIndexWriter.create(*FILES.parent(path), BASE, 24)
    index.trim()
    assert path.read_bytes() == b""
    assert index.is_full
    assert index.lookup(BASE) == (BASE, 0)
    index.flush()
    index.expand()
    index.append(BASE + 1, 1)
    assert path.read_bytes() == struct.pack(">2i", 1, 1) + bytes(16)
    index.close()


def test_opening_again_and_going_on(path: Path, index: OffsetIndex) -> None:
    index.close()
    index.close()
    assert path.read_bytes() == RAW
    again = OffsetIndexWriter.open(*FILES.parent(path), BASE, 100)
    assert (again.entries_count, again.ignored_slots, again.is_full, again.last_offset) == (4, 0, True, 1400)
    again.expand()
    again.append(1500, 20000)
    again.flush()
    assert path.read_bytes() == RAW + struct.pack(">2i", 500, 20000) + bytes(56)
    again.close()
    assert path.read_bytes() == RAW + struct.pack(">2i", 500, 20000)


def test_opening_for_writing_needs_a_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OffsetIndexWriter.open(*FILES.parent(path), BASE, 100)


@pytest.mark.parametrize("tail_slots", [1, 2, 511, 100_000])
def test_a_zero_tail_is_counted_and_cut(path: Path, tail_slots: int) -> None:
    path.write_bytes(RAW + bytes(tail_slots * 8))
    index = OffsetIndexWriter.open(*FILES.parent(path), BASE, 2_000_000)
    assert (index.entries_count, index.ignored_slots, index.last_offset) == (4, tail_slots, 1400)
    assert list(index) == ENTRIES
    index.check()
    index.expand()
    index.append(1500, 20000)
    index.close()
    assert path.read_bytes() == RAW + struct.pack(">2i", 500, 20000)


@pytest.mark.parametrize("size_bytes", [8, 16, 4000])
def test_a_file_of_zeros_has_no_entries(path: Path, size_bytes: int) -> None:
    path.write_bytes(bytes(size_bytes))
    index = OffsetIndexWriter.open(*FILES.parent(path), BASE, 4000)
    assert (index.entries_count, index.ignored_slots) == (0, size_bytes // 8)
    index.close()
    assert path.read_bytes() == b""


def test_an_entry_that_ends_in_zeros_is_not_of_the_tail(path: Path) -> None:
    raw = struct.pack(">2i", 1 << 24, 1 << 24)
    path.write_bytes(raw + bytes(80))
    index = OffsetIndexWriter.open(*FILES.parent(path), BASE, 88)
    assert list(index) == [(BASE + (1 << 24), 1 << 24)]
    index.close()
    assert path.read_bytes() == raw


def test_stray_bytes_behind_the_entries_do_not_come_back(path: Path) -> None:
    path.write_bytes(RAW + b"\x07\x07\x07")
    index = OffsetIndexWriter.open(*FILES.parent(path), BASE, 100)
    with pytest.raises(CorruptIndexError, match="35 bytes, which is not a multiple of 8"):
        index.check()
    assert list(index) == ENTRIES
    index.expand()
    assert path.read_bytes() == RAW + bytes(96 - len(RAW))
    index.check()
    index.close()


def test_more_entries_than_the_setting_allows_are_kept(path: Path) -> None:
    path.write_bytes(RAW)
    index = OffsetIndexWriter.open(*FILES.parent(path), BASE, 16)
    index.expand()
    assert list(index) == ENTRIES
    assert index.is_full
    index.close()
    assert path.read_bytes() == RAW


@pytest.mark.parametrize("expanded", [True, False])
@pytest.mark.parametrize(("offset", "kept"), [(BASE, 0), (1004, 0), (1005, 1), (1010, 2), (1400, 3), (1401, 4)])
def test_truncating_drops_what_is_at_and_above_the_offset(
    path: Path, index: OffsetIndex, offset: int, kept: int, expanded: bool
) -> None:
    if not expanded:
        index.trim()
    index.truncate_to(offset)
    assert list(index) == ENTRIES[:kept]
    assert index.last_offset == (ENTRIES[kept - 1].offset if kept else BASE)
    # Nothing stale is left behind, so that a crash now would not bring it back.
    assert path.read_bytes()[kept * 8 :].strip(b"\0") == b""
    index.expand()
    index.append(1390 if kept < 4 else 1500, 12000)
    assert index.entries_count == kept + 1
    assert path.stat().st_size == 96


def test_truncating_to_a_number_of_entries_and_clearing(path: Path, index: OffsetIndex) -> None:
    index.truncate_to_entries(2)
    assert list(index) == ENTRIES[:2]
    index.trim()
    index.clear()
    assert path.read_bytes() == bytes(96)
    assert (index.entries_count, index.last_offset, index.is_full) == (0, BASE, False)


def test_the_check_looks_at_the_last_offset(path: Path) -> None:
    path.write_bytes(RAW + struct.pack(">2i", -1, 5))
    index = OffsetIndexReader.open(*FILES.parent(path), BASE)
    with pytest.raises(CorruptIndexError, match="below the base offset 1000") as raised:
        index.check()
    assert (raised.value.path, raised.value.position, raised.value.offset) == (str(path), 32, 999)


@pytest.mark.property
@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1), max_size=40), st.integers(0, 2**62))
def test_lookups_and_truncations_equal_a_scan(
    tmp_path_factory: pytest.TempPathFactory, found: dict[int, int], base_offset: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "property.index"
    entries = [OffsetEntry(base_offset + relative, found[relative]) for relative in sorted(found)]
    index = OffsetIndexWriter.create(*FILES.parent(path), base_offset, 320)
    for entry in entries:
        index.append(*entry)
    for entry in entries:
        for target in (entry.offset - 1, entry.offset, entry.offset + 1):
            below = [entry for entry in entries if entry.offset <= target]
            assert index.lookup(target) == (below[-1] if below else (base_offset, 0))
    cut = entries[len(entries) // 2].offset if entries else base_offset
    index.truncate_to(cut)
    assert list(index) == [entry for entry in entries if entry.offset < cut]
    index.close()


@pytest.mark.parametrize("act", ["flush", "trim"])
def test_an_index_that_another_process_cut_is_written_again(path: Path, index: OffsetIndexWriter, act: str) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
    assert list(index) == ENTRIES
    getattr(index, act)()
    assert path.read_bytes().rstrip(b"\0") == RAW.rstrip(b"\0")
    index.trim()
    assert path.read_bytes() == RAW
