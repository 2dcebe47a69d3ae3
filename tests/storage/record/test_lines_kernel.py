"""Lines -> records data: the same as splitting the block and encoding each piece as a row."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidRecordError
from storage.record.kernel.encode import encode_rows
from storage.record.kernel.lines import encode_lines
from storage.testing.codec import OracleRecord, batch_of, encode_records

if TYPE_CHECKING:
    from storage.record.encoding import Row

HEADER_BYTES = 61
UNLIMITED = 2**31
T = 1_700_000_000_000

blocks = st.lists(
    st.one_of(st.just(b""), st.binary(max_size=20), st.builds(lambda size: b"x" * size, st.integers(50, 9000))),
    max_size=12,
).map(b"\n".join)


def lines_of(block: bytes, *, include_last: bool) -> list[bytes]:
    *lines, last = block.split(b"\n")
    return [*lines, last] if include_last and last else lines


def expected(lines: list[bytes]) -> bytes:
    rows: list[Row] = [(T, None, line, ()) for line in lines]
    return bytes(encode_rows(rows, max_bytes=UNLIMITED))


@pytest.mark.property
@given(blocks, st.booleans())
def test_lines_become_what_rows_of_them_become(block: bytes, include_last: bool) -> None:
    lines = lines_of(block, include_last=include_last)
    records_data = encode_lines(block, timestamp=T, max_bytes=UNLIMITED, include_last=include_last)
    assert bytes(records_data) == expected(lines)
    assert records_data.count == len(lines)
    assert records_data.stop == (len(block) if include_last else block.rfind(b"\n") + 1)
    assert (records_data.base_timestamp, records_data.max_timestamp) == (T, T if lines else -1)


@pytest.mark.property
@given(blocks, st.booleans(), st.data())
def test_no_line_is_taken_that_exceeds_the_maximum(block: bytes, include_last: bool, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(block)))
    lines = lines_of(block[start:], include_last=include_last)
    sizes = [HEADER_BYTES + len(expected(lines[: index + 1])) for index in range(len(lines))]
    max_bytes = data.draw(st.sampled_from([*sizes, *(size - 1 for size in sizes), 0, UNLIMITED]))
    records_data = encode_lines(block, timestamp=T, max_bytes=max_bytes, start=start, include_last=include_last)
    count = max(sum(size <= max_bytes for size in sizes), min(len(lines), 1))
    assert records_data.count == count
    assert bytes(records_data) == expected(lines[:count])
    assert records_data.stop == min(start + sum(len(line) + 1 for line in lines[:count]), len(block))


beginnings = st.one_of(st.just(b""), st.binary(max_size=20), st.binary(min_size=50, max_size=300))


@pytest.mark.property
@given(beginnings.map(lambda begun: begun.replace(b"\n", b"")), blocks, st.booleans(), st.data())
def test_the_first_line_may_have_begun_elsewhere(
    begun: bytes, block: bytes, include_last: bool, data: st.DataObject
) -> None:
    lines = lines_of(begun + block, include_last=include_last)
    oracle = [OracleRecord(offset, T, None, line) for offset, line in enumerate(lines)]
    sizes = [HEADER_BYTES + len(encode_records(batch_of(oracle[: index + 1]))) for index in range(len(oracle))]
    max_bytes = data.draw(st.sampled_from([*sizes, *(size - 1 for size in sizes), 0, UNLIMITED]))
    count = max(sum(size <= max_bytes for size in sizes), min(len(lines), 1))
    taken = encode_lines(block, timestamp=T, max_bytes=max_bytes, include_last=include_last, begun=begun)
    assert taken.count == count
    assert bytes(taken) == (encode_records(batch_of(oracle[:count])) if count else b"")
    rest = encode_lines(block, timestamp=T, max_bytes=UNLIMITED, start=taken.stop, include_last=include_last)
    assert bytes(rest) == (expected(lines[count:]) if count else bytes(rest))


@pytest.mark.parametrize("sizes", [[20] * 50_000, [0] * 10_000, [10**6, 0, 5, 10**6, *[7] * 1000]])
@pytest.mark.parametrize("max_bytes", [16384, 1 << 20])
def test_sections_follow_each_other_to_the_end(sizes: list[int], max_bytes: int) -> None:
    lines = [bytes([65 + size % 26]) * size for size in sizes]
    block = b"\n".join([*lines, b"rest"])
    start, seen = 0, 0
    while True:
        records_data = encode_lines(block, timestamp=T, max_bytes=max_bytes, start=start)
        if not records_data.count:
            break
        assert records_data.count == 1 or len(records_data) + HEADER_BYTES <= max_bytes
        assert bytes(records_data) == expected(lines[seen : seen + records_data.count])
        seen += records_data.count
        start = records_data.stop
    assert seen == len(lines)
    assert block[start:] == b"rest"


def test_any_buffer_is_a_block() -> None:
    text = b"first\n\nthird\nrest"
    with mmap.mmap(-1, len(text)) as mapped:
        mapped[:] = text
        for block in (text, bytearray(text), memoryview(text), memoryview(text + b"!")[:-1], mapped):
            assert bytes(encode_lines(block, timestamp=T, max_bytes=1000)) == expected([b"first", b"", b"third"])
            with_begun = encode_lines(text, timestamp=T, max_bytes=1000, begun=block)
            assert bytes(with_begun) == expected([text + b"first", b"", b"third"])
    unreadable: list[Any] = [None, "text\n", memoryview(text)[::2]]
    for block in unreadable:
        with pytest.raises((TypeError, BufferError)):
            encode_lines(block, timestamp=T, max_bytes=1000)
        with pytest.raises((TypeError, BufferError)):
            encode_lines(text, timestamp=T, max_bytes=1000, begun=block)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timestamp": -2},
        {"timestamp": 2**63},
        {"timestamp": None},
        {"max_bytes": -1},
        {"max_bytes": 2**63},
        {"start": -1},
        {"start": 7},
        {"start": 10**30},
        {"start": 0.5},
    ],
)
def test_bounds_of_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecordError, match=next(iter(wrong))):
        encode_lines(b"a\nb\nc\n", **{"timestamp": T, "max_bytes": 100} | wrong)
    assert encode_lines(b"a\nb\nc\n", timestamp=-1, max_bytes=100, start=6).count == 0
