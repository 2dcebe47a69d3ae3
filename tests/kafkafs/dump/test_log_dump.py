"""A dump shows bounds, gaps and damage, in every form."""

from __future__ import annotations

import errno
import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import GAPS_KEPT, RUN_BYTES, RUN_LINES, Bounds, Gaps, LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.testing.batch_codec import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    OracleRecord,
    batch_of,
    encode_batch,
    seal_batch,
)
from storage.testing.codec import resealed
from storage.testing.compressed import compress
from storage.testing.legacy_codec import encode_entry, entry_of, wrapper_of
from storage.testing.mutations import mutate
from storage.testing.strategies import encoded, logs

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def records(first: int, last: int, *, time: int = 1000) -> list[OracleRecord]:
    return [
        OracleRecord(offset=o, timestamp=time + o, key=b"k%d" % o, value=b"v%d" % o) for o in range(first, last + 1)
    ]


def batch(first: int, last: int, *, codec: int = 0, time: int = 1000) -> bytes:
    return encode_batch(batch_of(records(first, last, time=time), attributes=codec))


class MemoryFile:
    """A log in memory that cannot be read from `broken_at` on."""

    path = "00000000000000000000.log"

    def __init__(self, data: bytes, *, broken_at: int | None = None) -> None:
        self._data = data
        self._broken_at = broken_at

    def size_bytes(self) -> int:
        return len(self._data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        if self._broken_at is not None and position + size_bytes > self._broken_at:
            raise OSError(errno.EIO, "Input/output error", self.path)
        return self._data[position : position + size_bytes]


class Outcome:
    """What came of a dump, sorted by the kind of the lines."""

    def __init__(self, data: bytes, selection: Selection | None = None, *, limit_bytes: int = 2**20) -> None:
        dump = LogDump(MemoryFile(data), TextForm(), selection or Selection(), limit_bytes=limit_bytes)
        self.runs = list(dump)
        lines = [line.decode("utf-8", "replace") for run in self.runs for line in run]
        self.gaps = list(dump.gaps.report())
        self.is_damaged = dump.damaged
        self.positions = [int(line.split(" position: ")[1].split()[0]) for line in lines if is_batch(line)]
        self.offsets = [int(line.split()[2]) for line in lines if line.startswith("| offset: ")]
        self.damage = [line.removeprefix("Damaged: ") for line in lines if line.startswith("Damaged: ")]
        self.found = [line for line in lines if line.startswith("Found ")]


def is_batch(line: str) -> bool:
    return line.startswith(("baseOffset: ", "offset: ")) and " position: " in line


def selected(data: bytes, *, with_records: bool = True, **bounds: int) -> Outcome:
    return Outcome(data, Selection(bounds=Bounds(**bounds), with_records=with_records))


def with_fields(data: bytes, **fields: int) -> bytes:
    """A v2 batch with other numbers in its header, its checksum right."""
    changed = bytearray(data)
    for name, value in fields.items():
        form, position = {"length": (">i", 8), "magic": (">b", 16), "codec": (">h", 21), "count": (">i", 57)}[name]
        struct.pack_into(form, changed, position, value)
    return resealed(bytes(changed)) if {"length", "magic"}.isdisjoint(fields) else bytes(changed)


def with_records_data(records_data: bytes, *, codec: int = 0, count: int = 1) -> bytes:
    """A v2 batch with anything for its records, its checksum right."""
    shape = batch_of(records(10, 10), attributes=codec)
    return seal_batch(replace(shape, record_count=count), records_data)


def wrapper(value: bytes | None, *, codec: int = GZIP) -> bytes:
    """A v1 entry that says it is compressed, with anything for its value."""
    return encode_entry(replace(wrapper_of(records(10, 12), 1, codec), value=value))


MIDDLE = batch(10, 12)
ENTRY = encode_entry(entry_of(OracleRecord(offset=10, value=b"v"), 1))
# What is wrong with the second of three batches; the reason that is given, and the offsets in it that are shown before.
BROKEN_RECORDS = {
    "one record too many": (with_fields(MIDDLE, count=4), "a varint does not end", [10, 11, 12]),
    "one record too few": (with_fields(MIDDLE, count=2), "follow the last record", [10, 11]),
    "fewer than no records": (with_fields(MIDDLE, count=-1), "declares -1 records", []),
    "a codec from the future": (with_fields(MIDDLE, codec=7), "codec 7 does not exist", []),
    "a record that overruns": (with_records_data(b"\x7e\0\0\0\1\1\0"), "the record's length overruns", []),
    "a key that overruns": (with_records_data(b"\x0c\0\0\0\x7e\1\0"), "", []),
    "a value that overruns": (with_records_data(b"\x0c\0\0\0\1\x7e\0"), "", []),
    "headers that overrun": (with_records_data(b"\x0c\0\0\0\1\1\x7e"), "the headers overrun", []),
    "a varint that never ends": (with_records_data(b"\xff" * 20), "a varint does not end", []),
    "random bytes": (with_records_data(random.Random(1).randbytes(500), count=500), "", []),
    "gzip cut short": (with_records_data(compress(GZIP, MIDDLE[61:])[:-3], codec=GZIP, count=3), "gzip", []),
    "gzip and more": (with_records_data(compress(GZIP, MIDDLE[61:]) + b"x", codec=GZIP, count=3), "gzip", []),
    "snappy cut short": (with_records_data(compress(SNAPPY, MIDDLE[61:])[:-3], codec=SNAPPY, count=3), "snappy", []),
    "lz4 cut short": (with_records_data(compress(LZ4, MIDDLE[61:])[:-3], codec=LZ4, count=3), "lz4", []),
    "zstd cut short": (with_records_data(compress(ZSTD, MIDDLE[61:])[:-3], codec=ZSTD, count=3), "zstd", []),
    "not compressed at all": (with_records_data(MIDDLE[61:], codec=ZSTD, count=3), "zstd", []),
    "compressed, one record too many": (
        with_records_data(compress(ZSTD, MIDDLE[61:]), codec=ZSTD, count=4),
        "a varint does not end",
        [],
    ),
    "a bomb": (with_records_data(compress(ZSTD, bytes(2**22)), codec=ZSTD), "more than the limit", []),
    "a wrapper of nothing": (wrapper(None), "null value", []),
    "a wrapper of no entries": (wrapper(compress(GZIP, b"")), "no entries", []),
    "a wrapper in a wrapper": (wrapper(compress(GZIP, wrapper(compress(GZIP, ENTRY)))), "compressed entry", []),
    "a wrapper of a v2 batch": (wrapper(compress(GZIP, MIDDLE)), "v2 batch", []),
    "a wrapper cut short": (wrapper(compress(GZIP, ENTRY)[:-3]), "gzip", []),
    "an entry that overruns": (resealed(ENTRY[:-2] + b"\x7fv"), "overruns the entry", [10]),
}


@pytest.mark.parametrize("kind", BROKEN_RECORDS)
def test_a_dump_goes_on_after_records_that_do_not_parse(kind: str) -> None:
    data, reason, shown = BROKEN_RECORDS[kind]
    first, last = batch(0, 2), batch(20, 22)
    found = Outcome(first + data + last)
    assert found.is_damaged
    assert [offset for offset in found.offsets if offset < 10 or offset > 12] == [0, 1, 2, 20, 21, 22]
    assert [offset for offset in found.offsets if 10 <= offset <= 12] == shown
    (damage,) = found.damage
    assert reason in damage
    assert f"({MemoryFile.path}, position {len(first)}" in damage
    assert found.positions[-1] == len(first) + len(data)


# What is wrong with the header of the second of three batches; the reason, and whether the third is shown.
BROKEN_FRAMES = {
    "a magic from the future": (with_fields(MIDDLE, magic=3), "the magic byte is 3", True),
    "a magic below zero": (with_fields(MIDDLE, magic=-1), "the magic byte is -1", True),
    "a magic and a length that lie": (with_fields(MIDDLE, magic=3, length=len(MIDDLE)), "the magic byte is 3", False),
    "no room for a header": (MIDDLE[:8] + struct.pack(">i", 20) + MIDDLE[12:32], "no room for a v2 header", True),
    "a length of -1": (with_fields(MIDDLE, length=-1), "the batch length -1 is below", False),
    "a length of 0": (with_fields(MIDDLE, length=0), "the batch length 0 is below", False),
    "zeros": (bytes(100), "the batch length 0 is below", False),
}


@pytest.mark.parametrize("kind", BROKEN_FRAMES)
def test_a_dump_goes_on_after_a_header_only_if_a_batch_begins_there(kind: str) -> None:
    data, reason, goes_on = BROKEN_FRAMES[kind]
    first, last = batch(0, 2), batch(20, 22)
    found = Outcome(first + data + last)
    assert found.offsets == [0, 1, 2, 20, 21, 22] if goes_on else [0, 1, 2]
    assert found.damage == [f"{found.damage[0].split(' (')[0]} ({MemoryFile.path}, position {len(first)})"]
    assert reason in found.damage[0]
    assert (found.is_damaged, found.found) == (True, [])


def test_a_broken_header_may_be_the_last() -> None:
    found = Outcome(batch(0, 2) + with_fields(MIDDLE, magic=3))
    assert (len(found.damage), found.found) == (1, [])


def test_a_batch_that_declares_more_than_the_limit_is_passed_over() -> None:
    large = with_fields(MIDDLE, length=2**21) + bytes(2**21 + LOG_OVERHEAD_BYTES - len(MIDDLE))
    found = Outcome(batch(0, 2) + large + batch(20, 22), limit_bytes=2**20)
    assert found.offsets == [0, 1, 2, 20, 21, 22]
    assert "above the limit of 1048576" in found.damage[0]


@pytest.mark.parametrize("length", [2**31 - 1, 10_000])
def test_a_length_beyond_the_end_is_a_tail_of_invalid_bytes(length: int) -> None:
    tail = with_fields(MIDDLE, length=length) + batch(20, 22)
    found = Outcome(batch(0, 2) + tail)
    assert found.offsets == [0, 1, 2]
    assert found.found == [f"Found {len(tail)} invalid bytes at the end of {MemoryFile.path}"]
    assert (found.is_damaged, found.damage) == (True, [])


def test_a_log_cut_anywhere_shows_the_whole_batches_and_counts_the_rest() -> None:
    data = batch(0, 1) + batch(2, 3, codec=ZSTD) + ENTRY
    ends = [len(batch(0, 1)), len(batch(0, 1) + batch(2, 3, codec=ZSTD)), len(data)]
    for size in range(len(data) + 1):
        found = Outcome(data[:size])
        whole = [0, *(end for end in ends if end <= size)]
        assert found.positions == [0, *whole[1:]][: len(whole) - 1]
        assert found.found == (
            [f"Found {size - whole[-1]} invalid bytes at the end of {MemoryFile.path}"] if size > whole[-1] else []
        )
        assert found.is_damaged == (size > whole[-1])


def test_a_wrong_checksum_is_damage_and_its_records_are_shown() -> None:
    data = bytearray(batch(0, 2) + batch(10, 12))
    data[-2] ^= 1
    found = Outcome(bytes(data))
    assert (found.offsets, found.damage, found.is_damaged) == ([0, 1, 2, 10, 11, 12], [], True)


def test_a_wrong_checksum_within_a_wrapper_is_damage() -> None:
    inner = bytearray(ENTRY)
    inner[-1] ^= 1
    found = Outcome(wrapper(compress(GZIP, bytes(inner))))
    assert (found.damage, found.is_damaged) == ([], True)


@pytest.mark.property
@given(logs().map(lambda units: b"".join(map(encoded, units))), st.randoms(use_true_random=False))
def test_no_damage_ends_a_dump_early(data: bytes, rng: random.Random) -> None:
    found = Outcome(mutate(rng, data))
    assert found.positions == sorted(found.positions)
    assert not found.damage or found.is_damaged


def test_system_errors_are_raised_after_what_could_be_read() -> None:
    data = batch(0, 2)
    dump = LogDump(MemoryFile(data + batch(3, 5), broken_at=len(data)), TextForm(), Selection())
    with pytest.raises(OSError, match="Input/output error"):
        list(dump)


def test_runs_of_lines_are_short_however_large_the_batch() -> None:
    found = Outcome(batch(0, 3 * RUN_LINES))
    assert len(found.offsets) == 3 * RUN_LINES + 1
    assert max(map(len, found.runs)) == RUN_LINES


def test_runs_of_long_lines_are_short() -> None:
    """A header of two bytes takes twenty in a line of JSON, so a run of many records would take a hundred megabytes."""
    many = [replace(record, headers=(("", b""),) * 5000) for record in records(0, RUN_LINES // 2)]
    data = encode_batch(batch_of(many, attributes=ZSTD))
    runs = list(LogDump(MemoryFile(data), JsonForm(), Selection()))
    sizes_bytes = [sum(map(len, run)) for run in runs]
    assert sum(sizes_bytes) > 40 * RUN_BYTES
    assert max(sizes_bytes) < 2 * RUN_BYTES


def test_gaps_are_reported_from_the_last_to_the_first() -> None:
    found = Outcome(batch(0, 2) + batch(10, 12) + encode_entry(entry_of(OracleRecord(offset=5), 1)) + batch(6, 7))
    assert found.gaps == [
        f"Non-consecutive offsets in {Path.cwd()}/{MemoryFile.path}",
        "  12 is followed by 5",
        "  2 is followed by 10",
    ]


def test_without_a_gap_nothing_is_reported() -> None:
    assert Outcome(batch(7, 9) + batch(10, 12)).gaps == []
    assert Outcome(batch(7, 9) + batch(20, 22), Selection(with_records=False)).gaps == []


def test_what_is_passed_over_makes_no_gap() -> None:
    data = batch(0, 2) + batch(3, 5, time=9000) + batch(6, 8) + batch(20, 22)
    found = selected(data, end_time=2000)
    assert found.offsets == [0, 1, 2, 6, 7, 8, 20, 21, 22]
    assert found.gaps[1:] == ["  8 is followed by 20"]


def test_of_very_many_gaps_the_last_are_kept() -> None:
    gaps = Gaps("/a//b.log")
    for offset in range(0, 2 * (GAPS_KEPT + 11), 2):
        gaps.follow(offset)
    first, second, *_, last_kept, count = gaps.report()
    assert first == "Non-consecutive offsets in /a/b.log"
    assert second == f"  {2 * GAPS_KEPT + 18} is followed by {2 * GAPS_KEPT + 20}"
    assert last_kept == "  20 is followed by 22"
    assert count == "  and 10 more before these"


WRAPPERS = encode_entry(wrapper_of(records(0, 4), 1, GZIP)) + encode_entry(wrapper_of(records(5, 9), 1, GZIP))
BATCHES = batch(0, 4) + batch(5, 9, codec=ZSTD)


@pytest.mark.parametrize("data", [WRAPPERS, BATCHES])
@pytest.mark.parametrize(
    ("bounds", "offsets", "batches"),
    [
        ({}, range(10), 2),
        ({"first_offset": 3}, range(3, 10), 2),
        ({"first_offset": 5}, range(5, 10), 1),
        ({"end_offset": 5}, range(5), 1),
        ({"end_offset": 6}, range(6), 2),
        ({"first_offset": 3, "end_offset": 4}, range(3, 4), 1),
        ({"first_offset": 4, "end_offset": 4}, range(0), 0),
        ({"first_offset": 10}, range(0), 0),
        ({"end_offset": -1}, range(0), 0),
        ({"first_time": 1003}, range(3, 10), 2),
        ({"first_time": 1005, "end_time": 1007}, range(5, 7), 1),
        ({"end_time": 1001}, range(1), 1),
        ({"first_offset": 2, "end_time": 1004}, range(2, 4), 1),
    ],
)
def test_bounds_select_records_and_the_batches_they_are_in(
    data: bytes, bounds: dict[str, int], offsets: range, batches: int
) -> None:
    found = selected(data, **bounds)
    assert found.offsets == list(offsets)
    assert len(found.positions) == batches
    assert not found.is_damaged


@pytest.mark.parametrize(
    ("bounds", "batches"),
    [
        ({"first_offset": 4}, 3),
        ({"first_offset": 5, "end_offset": 10}, 1),
        ({"end_offset": 5}, 1),
        ({"first_time": 1005}, 2),
        ({"end_time": 1005}, 1),
        ({"first_time": 1012, "end_time": 1013}, 1),
        ({"first_time": 9999}, 0),
    ],
)
def test_of_batches_alone_the_headers_are_judged(bounds: dict[str, int], batches: int) -> None:
    found = selected(batch(0, 4) + batch(5, 9, codec=ZSTD) + batch(10, 14), with_records=False, **bounds)
    assert (len(found.positions), found.offsets) == (batches, [])


def test_late_records_are_found_wherever_they_are() -> None:
    """The second batch begins after the wanted time, but has a record that is older than its first."""
    late = batch_of([*records(3, 4, time=5000), *records(5, 5)])
    found = selected(batch(0, 2) + encode_batch(late), first_time=1002, end_time=1006)
    assert found.offsets == [2, 5]


def test_a_record_without_a_time_is_in_no_range_of_time() -> None:
    timeless = encode_batch(batch_of([OracleRecord(offset=0), OracleRecord(offset=1, timestamp=5)]))
    entry = encode_entry(entry_of(OracleRecord(offset=2), 0))
    assert selected(timeless + entry, end_time=10).offsets == [1]
    assert selected(timeless + entry, first_time=0).offsets == [1]
    assert selected(timeless + entry, first_offset=0).offsets == [0, 1, 2]


def test_a_delete_horizon_is_not_the_time_of_the_first_record() -> None:
    cleaned = batch_of(records(0, 2), attributes=DELETE_HORIZON, base_timestamp=10**12)
    assert selected(encode_batch(cleaned), with_records=False, end_time=1003).positions == [0]


def test_the_time_that_a_producer_said_is_not_that_of_a_batch_with_append_times() -> None:
    dated = batch_of(records(10, 12, time=10**6), base_timestamp=1000, attributes=LOG_APPEND_TIME)
    for with_records in (True, False):
        assert selected(encode_batch(dated), with_records=with_records, end_time=2000).positions == []
    assert selected(encode_batch(dated), with_records=False, first_time=10**6).positions == [0]


def test_damage_within_the_bounds_is_shown_though_no_record_is() -> None:
    broken = with_records_data(b"\xff" * 20)
    assert len(selected(broken, first_offset=10).damage) == 1
    assert selected(broken, first_offset=11).damage == []


def test_only_the_beginning_of_a_log_is_looked_at_when_that_is_wanted() -> None:
    data = batch(0, 2) + batch(3, 5)
    for max_bytes, offsets in [(0, 0), (1, 0), (len(data) - 1, 3), (len(data), 6), (len(data) + 1, 6)]:
        found = Outcome(data, Selection(max_bytes=max_bytes))
        assert found.offsets == list(range(offsets))
        assert (found.found, found.is_damaged) == ([], False)
