"""A scan that is told which offset is sought: the same batches, without those before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import NOW_MS

from storage.errors import FramingError
from storage.files import ReadableFile, WritableFile
from storage.segment.scan import LogScan
from storage.testing.codec import OracleEntry, OracleRecord, batch_of, encode_batch, encode_entry
from storage.testing.memory_files import MemoryFiles

steps = st.tuples(st.integers(0, 3), st.integers(0, 400), st.sampled_from([0, 1, 2]))  # gap, size, magic


def log_file(data: bytes) -> WritableFile:
    file = MemoryFiles().open_writing("/log", create=True)
    file.write_at(0, [data])
    return file


class CountingFile(ReadableFile):
    def __init__(self, data: bytes) -> None:
        super().__init__("/log", -1)
        self.data = data
        self.read_bytes = 0

    def size_bytes(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self.read_bytes += size_bytes
        return self.data[position : position + size_bytes]


def unit(offset: int, size: int, magic: int) -> bytes:
    if magic < 2:
        return encode_entry(OracleEntry(offset=offset, magic=magic, key=b"k", value=b"x" * size))
    records = [OracleRecord(each, NOW_MS, b"k", b"x" * size) for each in (offset - 1, offset)]
    return encode_batch(batch_of(records))


def log_of(made: list[tuple[int, int, int]]) -> tuple[bytes, int]:
    data, offset = b"", 0
    for gap, size, magic in made:
        offset += 2 + gap
        data += unit(offset, size, magic)
    return data, offset


@given(made=st.lists(steps, max_size=12), cut=st.integers(0, 90), sought=st.floats(0, 1.1), window=st.integers(1, 600))
def test_seeking_leaves_out_what_ends_before(
    made: list[tuple[int, int, int]], cut: int, sought: float, window: int
) -> None:
    data, last_offset = log_of(made)
    file = log_file(data[: max(len(data) - cut, 0)])
    offset = round(sought * last_offset)
    everything = LogScan(file)
    expected = [batch for batch in everything if batch.last_offset >= offset]
    scan = LogScan(file, window_bytes=window)
    scan.seek(offset)
    assert scan.position == (expected[0].position if expected else everything.position)
    if expected:
        assert scan.next_last_offset == expected[0].last_offset
    found = [(batch.position, bytes(batch.view(0, batch.size_bytes))) for batch in scan]
    assert found == [(batch.position, bytes(batch.view(0, batch.size_bytes))) for batch in expected]
    assert (scan.position, scan.trailing_bytes) == (everything.position, everything.trailing_bytes)


@pytest.mark.parametrize(("at", "field"), [(8, bytes(4)), (8, b"\xff\xff\xff\xf0"), (8, b"\0\0\0\x30"), (16, b"\3")])
def test_seeking_ends_at_what_can_be_no_batch(at: int, field: bytes) -> None:
    damage = unit(5, 10, 2)
    damage = damage[:at] + field + damage[at + len(field) :]
    before = unit(3, 10, 2)
    scan = LogScan(log_file(before + damage + unit(9, 10, 2)))
    scan.seek(9)
    assert scan.position == len(before)
    assert scan.next_last_offset is None
    with pytest.raises(FramingError):
        next(iter(scan))


def test_bodies_that_are_passed_over_are_not_read() -> None:
    data = unit(3, 100_000, 2) + unit(5, 100_000, 2) + unit(7, 10, 2)
    file = CountingFile(data)
    scan = LogScan(file, window_bytes=100)
    assert scan.next_last_offset == 3
    scan.seek(7)
    assert [batch.last_offset for batch in scan] == [7]
    assert file.read_bytes < 1000
