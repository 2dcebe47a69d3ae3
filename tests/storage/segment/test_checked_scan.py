"""How far recovery reads a log, and why no further."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storage.errors import ChecksumError, CorruptBatchError, FramingError
from storage.record import read_batches
from storage.segment.checked_scan import CheckedScan, lacks_offsets
from storage.testing.codec import (
    GZIP,
    OracleBatch,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_entry,
    entry_of,
    seal_batch,
    wrapper_of,
)
from storage.testing.memory_files import MemoryFiles
from storage.testing.strategies import encoded, logs

if TYPE_CHECKING:
    from storage.testing.codec import OracleEntry

PATH = "/00000000000000000100.log"
BASE = 100
RANGE = 2**31 - 1  # the most that an index can say of an offset


def batch(*offsets: int, timestamp: int = 1000) -> OracleBatch:
    return batch_of([OracleRecord(offset, timestamp, b"k", b"value") for offset in offsets])


def entry(offset: int, magic: int) -> bytes:
    return encode_entry(entry_of(OracleRecord(offset, 1000, b"k", b"value"), magic))


def wrapper(magic: int, *offsets: int) -> bytes:
    return encode_entry(wrapper_of([OracleRecord(offset, 1000, b"k", b"value") for offset in offsets], magic, GZIP))


def scanned(data: bytes, base_offset: int = BASE) -> tuple[list[int], CheckedScan]:
    """The last offsets of what is kept, and the scan after that."""
    files = MemoryFiles()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [data])
    scan = CheckedScan(files.open_reading(PATH), base_offset)
    return [each.last_offset for each in scan], scan


SOUND = encode_batch(batch(100, 101)) + encode_batch(batch(102))
NEXT = encode_batch(batch(103, 104))


def test_a_sound_log_is_read_to_its_end() -> None:
    kept, scan = scanned(SOUND + NEXT)
    assert kept == [101, 102, 104]
    assert (scan.position, scan.trailing_bytes) == (len(SOUND + NEXT), 0)
    assert (scan.next_offset, scan.error, scan.overflows) == (105, None, False)


def test_an_empty_log_ends_at_its_base() -> None:
    kept, scan = scanned(b"")
    assert (kept, scan.position, scan.trailing_bytes, scan.next_offset, scan.error) == ([], 0, 0, BASE, None)


@pytest.mark.parametrize("kept_bytes", [1, 11, 12, 16, 17, 60, len(NEXT) - 1])
def test_a_batch_that_is_cut_short_is_no_error(kept_bytes: int) -> None:
    kept, scan = scanned(SOUND + NEXT[:kept_bytes])
    assert kept == [101, 102]
    assert (scan.position, scan.trailing_bytes, scan.error) == (len(SOUND), kept_bytes, None)
    assert scan.next_offset == 103


def test_zeros_are_a_length_that_no_batch_has() -> None:
    kept, scan = scanned(SOUND + b"\0" * 40)
    assert (kept, scan.position, scan.trailing_bytes) == ([101, 102], len(SOUND), 40)
    assert isinstance(scan.error, FramingError)
    assert (scan.error.path, scan.error.position) == (PATH, len(SOUND))


def test_a_magic_that_does_not_exist() -> None:
    strange = bytearray(NEXT)
    strange[16] = 9
    kept, scan = scanned(SOUND + strange)
    assert kept == [101, 102]
    assert isinstance(scan.error, CorruptBatchError)


@pytest.mark.parametrize("position", [21, 23, 45, len(NEXT) - 1])
def test_a_bit_that_the_checksum_covers(position: int) -> None:
    damaged = bytearray(NEXT)
    damaged[position] ^= 1
    kept, scan = scanned(SOUND + damaged + encode_batch(batch(105)))
    assert (kept, scan.position, scan.next_offset) == ([101, 102], len(SOUND), 103)
    assert isinstance(scan.error, ChecksumError)
    assert (scan.error.path, scan.error.position) == (PATH, len(SOUND))
    assert scan.trailing_bytes == len(damaged) + len(encode_batch(batch(105)))


@pytest.mark.parametrize("offset", [101, 102, 50, -5])
def test_offsets_that_do_not_rise(offset: int) -> None:
    kept, scan = scanned(SOUND + encode_batch(batch(offset)))
    assert kept == [101, 102]
    assert scan.error is not None
    assert f"offsets {offset} to {offset} where 103 is due" in str(scan.error)
    assert (scan.error.path, scan.error.position) == (PATH, len(SOUND))


def test_an_offset_below_the_base() -> None:
    kept, scan = scanned(encode_batch(batch(99)))
    assert (kept, scan.position, scan.next_offset) == ([], 0, BASE)
    assert scan.error is not None


def test_a_batch_that_ends_before_it_begins() -> None:
    backwards = replace(batch(103), last_offset_delta=-1)
    kept, scan = scanned(SOUND + seal_batch(backwards, b""))
    assert kept == [101, 102]
    assert scan.error is not None


def test_offsets_may_be_missing() -> None:
    kept, scan = scanned(SOUND + encode_batch(batch(200, 205)) + encode_batch(batch(1000)))
    assert (kept, scan.next_offset, scan.error) == ([101, 102, 205, 1000], 1001, None)


def test_a_batch_that_begins_where_the_one_before_has_not_ended_is_kept_as_a_broker_keeps_it() -> None:
    overlapping = batch_of([OracleRecord(104, 1000, value=b"v")], base_offset=102)
    kept, scan = scanned(SOUND + encode_batch(overlapping))
    assert (kept, scan.next_offset, scan.error) == ([101, 102, 104], 105, None)


def test_records_that_cannot_be_read_are_not_asked_for() -> None:
    nonsense = seal_batch(batch(103), b"\xff" * 30)
    kept, scan = scanned(SOUND + nonsense)
    assert (kept, scan.error) == ([101, 102, 103], None)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_versions(magic: int) -> None:
    data = entry(100, magic) + wrapper(magic, 101, 102, 105) + entry(106, magic)
    kept, scan = scanned(data)
    assert (kept, scan.next_offset, scan.error, scan.trailing_bytes) == ([100, 105, 106], 107, None, 0)
    damaged = bytearray(data)
    damaged[len(entry(100, magic)) + 30] ^= 1
    kept, scan = scanned(bytes(damaged))
    assert kept == [100]
    assert isinstance(scan.error, ChecksumError)
    kept, scan = scanned(data + entry(106, magic))
    assert kept == [100, 105, 106]
    assert scan.error is not None


def test_the_last_offset_that_an_index_can_tell_and_the_first_that_it_cannot() -> None:
    last = encode_batch(batch(BASE + RANGE))
    kept, scan = scanned(SOUND + last)
    assert (kept[-1], scan.overflows, scan.trailing_bytes) == (BASE + RANGE, False, 0)
    beyond = encode_batch(batch(BASE + RANGE + 1))
    kept, scan = scanned(SOUND + last + beyond)
    assert (kept[-1], scan.overflows, scan.error) == (BASE + RANGE, True, None)
    assert (scan.position, scan.next_offset) == (len(SOUND + last), BASE + RANGE + 1)
    kept, scan = scanned(SOUND + entry(BASE + RANGE + 1, 1))
    assert (kept, scan.overflows, scan.error) == ([101, 102], True, None)


def test_damage_that_would_overflow_is_damage() -> None:
    beyond = bytearray(encode_batch(batch(BASE + RANGE + 1)))
    beyond[-1] ^= 1
    _, scan = scanned(SOUND + beyond)
    assert not scan.overflows
    assert isinstance(scan.error, ChecksumError)


@pytest.mark.property
@given(units=logs(), data=st.data())
def test_whatever_a_log_loses_at_its_end_the_batches_before_are_kept(
    units: tuple[OracleBatch | OracleEntry, ...], data: st.DataObject
) -> None:
    assume(units)
    base_offset = units[0].last_offset
    assume(units[-1].last_offset - base_offset <= RANGE)
    ends = list(accumulate(len(encoded(unit)) for unit in units))
    whole = b"".join(encoded(unit) for unit in units)
    cut = data.draw(st.integers(0, len(whole)))
    kept, scan = scanned(whole[:cut], base_offset)
    assert kept == [unit.last_offset for unit, end in zip(units, ends, strict=True) if end <= cut]
    assert scan.position == max((end for end in ends if end <= cut), default=0)
    assert (scan.error, scan.overflows) == (None, False)


def test_which_segments_lack_offsets() -> None:
    def lacks(data: bytes) -> bool:
        return lacks_offsets(BASE, read_batches(data))

    assert not lacks(b"")
    assert not lacks(SOUND + NEXT)
    assert lacks(NEXT)
    assert lacks(SOUND + encode_batch(batch(104)))
    within = batch_of([OracleRecord(103, 1, value=b""), OracleRecord(105, 1, value=b"")])
    assert lacks(SOUND + encode_batch(within))
    assert not lacks(entry(100, 1) + entry(101, 1))
    assert lacks(entry(100, 1) + entry(102, 1))


def test_the_header_of_a_damaged_batch_shows_no_missing_offset() -> None:
    after = encode_batch(batch(104))
    count_at = 57  # of a batch that a loss of power tore within its header, the last fields are zeros
    torn = NEXT[:count_at] + bytes(len(NEXT) - count_at)
    assert not lacks_offsets(BASE, read_batches(SOUND + torn))
    assert not lacks_offsets(BASE, read_batches(SOUND + torn + after))
    assert lacks_offsets(BASE, read_batches(SOUND + torn + after + encode_batch(batch(108))))
