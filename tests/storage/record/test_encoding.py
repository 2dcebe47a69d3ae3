"""New batches: what peers and the oracle read of them, and how large they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import RecordTooLargeError
from storage.record import Codec, RecordBatch, TimestampType, read_batches
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_lines, batches_of_rows, marker_batch
from storage.record.kernel.summary import summarize_records
from storage.testing import strategies
from storage.testing.codec import OracleBatch, decode_batches

if TYPE_CHECKING:
    from storage.record.encoding import Row

GOLDEN_DATA = bytes.fromhex(
    "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffff"
    "ff0000000210000000026b02760018000a02046b32010202680278"
)
GOLDEN_MARKER = bytes.fromhex(
    "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe5680000000000000000090002ffffff"
    "ff000000012000000008000000010c00000000000300"
)
TIME = 1_700_000_000_000

rows = st.lists(
    st.tuples(strategies.timestamps, strategies.keys, strategies.values, strategies.headers), min_size=1, max_size=30
)


def test_the_known_batch() -> None:
    made = batches_of_rows(
        [(TIME, b"k", b"v", ()), (TIME + 5, b"k2", None, [("h", b"x")])], form=BatchForm(leader_epoch=0)
    )
    assert [batch.data for batch in made] == [GOLDEN_DATA]


def test_the_known_marker() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
    made = marker_batch(marker, offset=7, timestamp_ms=TIME, producer_id=9, producer_epoch=2, leader_epoch=0)
    assert made.data == GOLDEN_MARKER


@pytest.mark.property
@given(rows, st.sampled_from(list(Codec)), st.integers(61, 2000), st.sampled_from([0, 7, 2**62]))
def test_the_oracle_reads_what_is_written(made: list[Row], codec: Codec, max_bytes: int, base_offset: int) -> None:
    form = BatchForm(codec=codec, producer_id=5, producer_epoch=1, base_sequence=2**31 - 3, transactional=True)
    batches = []
    try:
        for batch in batches_of_rows(made, base_offset=base_offset, max_bytes=max_bytes, form=form):
            assert len(batch) <= max_bytes
            batches.append(batch)
    except RecordTooLargeError as error:
        # Only the record whose turn it was is too large, and all before it have been written.
        written = sum(batch.count for batch in read_batches(b"".join(batches)) if isinstance(batch, RecordBatch))
        assert error.offset == base_offset + written  # noqa: PT017
        with pytest.raises(RecordTooLargeError):
            list(batches_of_rows(made[written : written + 1], max_bytes=max_bytes, form=form))
        made = made[:written]
    seen = []
    for oracle in decode_batches(b"".join(batches)):
        assert isinstance(oracle, OracleBatch)
        assert oracle.codec == codec
        assert oracle.record_count == len(oracle.records) == oracle.last_offset_delta + 1
        assert oracle.max_timestamp == max(record.timestamp for record in oracle.records)
        assert oracle.is_transactional
        seen += oracle.records
    assert [(r.timestamp, r.key, r.value, r.headers) for r in seen] == made
    assert [record.offset for record in seen] == list(range(base_offset, base_offset + len(made)))
    assert [record.sequence for record in seen] == [(2**31 - 3 + n) % 2**31 for n in range(len(made))]


@pytest.mark.property
@given(rows, st.sampled_from(list(Codec)), st.sampled_from([None, 7, TIME]))
def test_the_summary_is_that_of_reading_them_again(made: list[Row], codec: Codec, append_time_ms: int | None) -> None:
    form = BatchForm(codec=codec, append_time_ms=append_time_ms)
    lines = b"\n".join(value or b"" for _, _, value, _ in made)
    for encoded in (
        *batches_of_rows(made, max_bytes=10_000, form=form),
        *batches_of_lines(lines, timestamp_ms=made[0][0], max_bytes=10_000, form=form),
    ):
        (batch,) = read_batches(encoded)
        assert isinstance(batch, RecordBatch)
        batch.check_crc()
        known, read = encoded.summary, summarize_records(batch, batch.records_data())
        for name in ("min_timestamp", "max_timestamp", "keyless", "is_consecutive"):
            assert getattr(known, name) == getattr(read, name)


@pytest.mark.property
@given(st.lists(st.binary(max_size=200).map(lambda b: b.replace(b"\n", b"")), max_size=30), st.booleans())
def test_lines(lines: list[bytes], ends_with_newline: bool) -> None:
    block = b"\n".join(lines) + (b"\n" if ends_with_newline and lines else b"")
    expected = block.split(b"\n")
    if expected[-1] == b"":
        expected.pop()  # a newline ends a line, it does not begin another
    batches = list(batches_of_lines(block, timestamp_ms=TIME, base_offset=3, max_bytes=500))
    seen = [record for batch in read_batches(b"".join(batches)) for record in batch.records()]
    assert [record.value for record in seen] == expected
    assert {(record.key, record.timestamp, record.headers) for record in seen} <= {(None, TIME, ())}
    assert [record.offset for record in seen] == list(range(3, 3 + len(expected)))


@pytest.mark.property
@given(
    st.binary(max_size=300).map(lambda b: b.replace(b"\n", b"")),
    st.lists(st.binary(max_size=200), min_size=1, max_size=30).map(b"\n".join),
    st.sampled_from(list(Codec)),
)
def test_lines_may_begin_before_their_block(begun: bytes, block: bytes, codec: Codec) -> None:
    options = {"timestamp_ms": TIME, "base_offset": None, "max_bytes": 500, "form": BatchForm(codec=codec)}
    batches = [*map(bytes, batches_of_lines(block or b"\n", begun=begun, **options))]
    assert batches == [*map(bytes, batches_of_lines(begun + (block or b"\n"), **options))]


def test_the_broker_s_time_stands_for_all() -> None:
    form = BatchForm(append_time_ms=TIME + 99)
    (data,) = batches_of_rows([(5, None, b"a", ()), (9, None, b"b", ())], form=form)
    (batch,) = read_batches(data)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch.records()] == [TIME + 99, TIME + 99]


def test_data_that_compression_makes_larger_still_fits() -> None:
    noise = [
        (TIME, None, bytes((n * 7919 + i * i) * 2654435761 >> 13 & 255 for i in range(100)), ()) for n in range(50)
    ]
    for codec in Codec:
        batches = list(batches_of_rows(noise, max_bytes=400, form=BatchForm(codec=codec)))
        assert all(len(batch) <= 400 for batch in batches)
        assert sum(batch.count for batch in read_batches(b"".join(batches)) if isinstance(batch, RecordBatch)) == 50


def test_no_rows_make_no_batches() -> None:
    assert list(batches_of_rows([])) == []
    assert list(batches_of_lines(b"", timestamp_ms=TIME)) == []


def test_without_a_base_each_batch_counts_from_zero() -> None:
    made: list[Row] = [(1, None, b"x" * 100, ())] * 10
    packed = [*batches_of_rows(made, base_offset=None, max_bytes=400)]
    block = b"x" * 100 + b"\n"
    lines = [*batches_of_lines(block * 10, timestamp_ms=1, base_offset=None, max_bytes=400)]
    for batches in (packed, lines):
        assert len(batches) > 1
        assert [record.offset for data in batches for batch in read_batches(data) for record in batch.records()] == [
            offset for data in batches for offset in range(next(read_batches(data)).count)
        ]
        assert all(next(read_batches(data)).base_offset == 0 for data in batches)
        assert sum(next(read_batches(data)).count for data in batches) == 10
