"""The summary of records, against the records themselves."""

from __future__ import annotations

import pytest
from hypothesis import given

from storage.errors import CorruptBatchError, MalformedRecordsError
from storage.record import Codec, RecordBatch, read_batches
from storage.record.kernel.summary import summarize_records
from storage.testing.codec import OracleRecord, batch_of, encode_batch
from storage.testing.strategies import batches_with_damaged_records, data_batches

LOG_APPEND_TIME = 8


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


@pytest.mark.property
@given(data_batches())
def test_the_summary_says_what_the_records_say(oracle: object) -> None:
    batch = read(encode_batch(oracle))  # type: ignore[arg-type]
    records_data = None if batch.codec is Codec.NONE else batch.records_data()
    found = summarize_records(batch, records_data)
    records = list(batch.records())
    if not batch.attributes & LOG_APPEND_TIME:
        times = [record.timestamp for record in records]
        assert found.max_timestamp == max([*times, -1])
        assert found.min_timestamp == min([time for time in times if time != -1], default=-1)
    assert found.keyless == sum(record.key is None for record in records)
    assert found.is_consecutive == ([r.offset - batch.base_offset for r in records] == list(range(len(records))))


@pytest.mark.property
@given(batches_with_damaged_records())
def test_a_damaged_batch_is_an_error_where_its_records_are(data: bytes) -> None:
    try:
        batch = read(data)
        records_data = None if batch.codec is Codec.NONE else batch.records_data()
        records = list(batch.records()) if batch.count else None
    except (CorruptBatchError, StopIteration):
        return
    if records is not None:
        assert summarize_records(batch, records_data).keyless == sum(record.key is None for record in records)


@pytest.mark.parametrize("change", [-1, 1, 2**31 - 2])
def test_a_count_that_is_not_the_records_is_an_error(change: int) -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v"), OracleRecord(1, 6, None, b"v")])))
    data[57:61] = (2 + change & 0xFFFFFFFF).to_bytes(4, "big")
    with pytest.raises(MalformedRecordsError, match="does not hold exactly"):
        summarize_records(read(bytes(data)))


def test_the_smallest_timestamp_leaves_out_those_that_are_none() -> None:
    rows = [OracleRecord(0, -1, b"k", b""), OracleRecord(1, 50, None, b""), OracleRecord(2, 40, b"k", b"")]
    found = summarize_records(read(encode_batch(batch_of(rows))))
    assert (found.min_timestamp, found.max_timestamp, found.keyless, found.is_consecutive) == (40, 50, 1, True)
