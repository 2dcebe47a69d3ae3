"""The transaction index: what may be added, which aborts concern a reader, and what is left after a cut."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptIndexError, InvalidIndexEntryError
from storage.files import Files
from storage.segment.index.entries import AbortedTransaction
from storage.segment.index.txn import TransactionIndex, TransactionIndexReader, TransactionIndexWriter

if TYPE_CHECKING:
    from pathlib import Path

FILES = Files()
FIRST = AbortedTransaction(producer_id=9, first_offset=100, last_offset=120, last_stable_offset=105)
SECOND = AbortedTransaction(producer_id=7, first_offset=105, last_offset=130, last_stable_offset=131)
THIRD = AbortedTransaction(producer_id=9, first_offset=140, last_offset=150, last_stable_offset=151)
RAW = b"".join(struct.pack(">hqqqq", 0, *transaction) for transaction in (FIRST, SECOND, THIRD))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{90:020}.txnindex"


@pytest.fixture
def index(path: Path) -> TransactionIndex:
    index = TransactionIndexWriter.open(*FILES.parent(path), 90)
    for transaction in (FIRST, SECOND, THIRD):
        index.append(transaction)
    return index


def test_there_is_no_file_before_an_abort_is_indexed(path: Path) -> None:
    index = TransactionIndexWriter.open(*FILES.parent(path), 90)
    assert (list(index), index.entries_count, index.last_offset) == ([], 0, None)
    assert index.aborted(0, 1000) == ([], False)
    index.truncate_to(0)
    index.clear()
    index.flush()
    index.check()
    assert not path.exists()
    index.append(FIRST)
    assert path.read_bytes() == RAW[:34]
    index.flush()
    index.close()
    index.close()


def test_entries_are_in_the_file_at_once(path: Path, index: TransactionIndex) -> None:
    assert path.read_bytes() == RAW
    assert list(index) == [FIRST, SECOND, THIRD]
    assert (index.entries_count, index.last_offset) == (3, 150)


@pytest.mark.parametrize("last_offset", [149, 150])
def test_markers_ascend(path: Path, index: TransactionIndex, last_offset: int) -> None:
    with pytest.raises(InvalidIndexEntryError, match="not above the last one, 150") as raised:
        index.append(AbortedTransaction(1, 145, last_offset, 151))
    assert raised.value.offset == last_offset
    assert path.read_bytes() == RAW


@pytest.mark.parametrize(
    ("fetch_offset", "bound", "found", "is_complete"),
    [
        (90, 1000, [FIRST, SECOND, THIRD], False),
        (90, 151, [FIRST, SECOND, THIRD], True),
        (90, 152, [FIRST, SECOND, THIRD], False),
        (90, 141, [FIRST, SECOND, THIRD], True),
        (90, 140, [FIRST, SECOND], True),
        (90, 131, [FIRST, SECOND], True),
        (121, 131, [SECOND], True),
        (120, 105, [FIRST], True),
        (120, 106, [FIRST, SECOND], True),
        (131, 132, [], True),
        (151, 1000, [], False),
        (90, 100, [], True),
    ],
)
def test_what_a_reader_must_leave_out(
    index: TransactionIndex,
    path: Path,
    fetch_offset: int,
    bound: int,
    found: list[AbortedTransaction],
    is_complete: bool,
) -> None:
    assert index.aborted(fetch_offset, bound) == (found, is_complete)
    reading = TransactionIndexReader.open(*FILES.parent(path), 90)
    assert reading.aborted(fetch_offset, bound) == (found, is_complete)


@pytest.mark.parametrize(("offset", "kept"), [(120, 0), (121, 1), (130, 1), (131, 2), (150, 2), (151, 3)])
def test_truncating_drops_the_markers_at_and_above_the_offset(
    path: Path, index: TransactionIndex, offset: int, kept: int
) -> None:
    index.truncate_to(offset)
    assert path.read_bytes() == RAW[: kept * 34]
    assert list(index) == [FIRST, SECOND, THIRD][:kept]
    index.append(AbortedTransaction(1, 145, 151, 152))
    assert path.stat().st_size == (kept + 1) * 34


def test_clearing_leaves_an_empty_file(path: Path, index: TransactionIndex) -> None:
    index.clear()
    assert path.read_bytes() == b""
    assert index.last_offset is None


@pytest.mark.parametrize("tail", [b"", b"\0", RAW[:33], bytes(34), bytes(3400)])
def test_opening_again_cuts_what_is_no_entry(path: Path, tail: bytes) -> None:
    path.write_bytes(RAW + tail)
    reading = TransactionIndexReader.open(*FILES.parent(path), 90)
    assert list(reading) == [FIRST, SECOND, THIRD]
    assert path.read_bytes() == RAW + tail
    index = TransactionIndexWriter.open(*FILES.parent(path), 90)
    assert list(index) == [FIRST, SECOND, THIRD]
    assert path.read_bytes() == RAW
    index.append(AbortedTransaction(1, 145, 160, 161))
    assert path.read_bytes()[:-34] == RAW
    index.close()


def test_a_marker_below_the_base_offset_is_refused_by_the_check(path: Path, index: TransactionIndex) -> None:
    index.check()
    with pytest.raises(CorruptIndexError, match="below the base offset 121") as raised:
        TransactionIndexReader.open(*FILES.parent(path), 121).check()
    assert (raised.value.path, raised.value.position, raised.value.offset) == (str(path), 0, 120)


def test_an_unknown_version_is_refused_when_it_is_reached(path: Path) -> None:
    path.write_bytes(RAW[:34] + struct.pack(">hqqqq", 1, *SECOND) + RAW[68:])
    index = TransactionIndexReader.open(*FILES.parent(path), 90)
    assert index.aborted(90, 105) == ([FIRST], True)
    with pytest.raises(CorruptIndexError, match="version 1") as raised:
        index.aborted(90, 1000)
    assert raised.value.position == 34


def test_a_reader_follows_a_growing_file_and_keeps_what_is_deleted(path: Path) -> None:
    reading = TransactionIndexReader.open(*FILES.parent(path), 90)
    assert (list(reading), reading.refresh()) == ([], False)
    path.write_bytes(RAW[:34])
    assert list(reading) == []
    assert reading.refresh()
    assert list(reading) == [FIRST]
    with path.open("ab") as file:
        file.write(RAW[34:])
    assert reading.refresh()
    assert not reading.refresh()
    assert (list(reading), reading.last_offset, reading.loaded_bytes) == ([FIRST, SECOND, THIRD], 150, 102)
    path.unlink()
    assert not reading.refresh()
    assert list(reading) == [FIRST, SECOND, THIRD]
    reading.unload()


@pytest.mark.property
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60), st.integers(-60, 1)), max_size=12),
    st.integers(0, 500),
    st.integers(0, 500),
)
def test_the_walk_stops_where_no_later_abort_can_matter(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]], fetch_offset: int, bound: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "property.txnindex"
    path.unlink(missing_ok=True)
    index = TransactionIndexWriter.open(*FILES.parent(path), 0)
    transactions = []
    marker = 60
    for step, length, stable in steps:
        marker += step
        transactions.append(AbortedTransaction(1, max(marker - length, 0), marker, marker + stable))
        index.append(transactions[-1])
    stops = [slot for slot, transaction in enumerate(transactions) if transaction.last_stable_offset >= bound]
    walked = transactions[: stops[0] + 1] if stops else transactions
    expected = [t for t in walked if t.last_offset >= fetch_offset and t.first_offset < bound]
    assert index.aborted(fetch_offset, bound) == (expected, bool(stops))
    index.close()
