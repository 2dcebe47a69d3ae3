"""Records by their index: the same that an iterator gives, the same errors, and memory for their places alone."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given

from storage.errors import CorruptBatchError, MalformedRecordsError
from storage.record import Codec, Record, RecordBatch, read_batches
from storage.record.compression import compress
from storage.record.kernel.records_data import seal
from storage.testing.codec import OracleBatch, encode_batch
from storage.testing.strategies import batches_with_damaged_records, data_batches

MANY = 100_000
EMPTY_RECORD = b"\x0c\0\0\0\x01\x01\0"  # of six bytes: no key, no value, no headers


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


def batch_of(records: bytes, count: int, codec: Codec = Codec.NONE) -> RecordBatch:
    return read(
        seal(
            compress(codec, records) if codec else records,
            base_offset=0,
            leader_epoch=0,
            attributes=codec,
            last_offset_delta=max(count - 1, 0),
            base_timestamp=0,
            max_timestamp=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            count=count,
        )
    )


def outcome(batch: RecordBatch, *, by_index: bool) -> list[Record] | str:
    """Return the records, or the type and the message of the error."""
    try:
        return list(batch.record_sequence() if by_index else batch.records())
    except CorruptBatchError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.property
@given(data_batches())
def test_each_index_has_the_record_that_an_iterator_gives(oracle: OracleBatch) -> None:
    batch = read(encode_batch(oracle))
    expected = list(batch.records())
    records = batch.record_sequence()
    assert len(records) == len(expected)
    assert [records[index] for index in range(len(records))] == expected
    assert [records[index - len(records)] for index in range(len(records))] == expected
    assert [record.sequence for record in records] == [record.sequence for record in expected]
    for index in (len(records), -len(records) - 1):
        with pytest.raises(IndexError):
            records[index]


@pytest.mark.property
@given(batches_with_damaged_records())
def test_damaged_records_raise_what_an_iterator_raises(data: bytes) -> None:
    try:
        batch = read(data)
    except (CorruptBatchError, StopIteration):
        return
    assert outcome(batch, by_index=True) == outcome(batch, by_index=False)


@pytest.mark.parametrize("count", [2, 3, 2**31 - 1])
def test_a_count_that_lies_is_found_and_takes_no_memory(count: int) -> None:
    batch = batch_of(EMPTY_RECORD, count)
    assert outcome(batch, by_index=True) == outcome(batch, by_index=False)


def test_bytes_after_the_last_record_are_damage() -> None:
    with pytest.raises(MalformedRecordsError, match="7 bytes follow the last record"):
        batch_of(2 * EMPTY_RECORD, 1).record_sequence()


def test_a_record_outlives_its_sequence() -> None:
    records = batch_of(b"\x10\0\0\0\x02k\x02v\0", 1, Codec.ZSTD).record_sequence()
    record = records[0]
    del records
    assert (record.key, record.value) == (b"k", b"v")


def test_many_records_take_four_bytes_each() -> None:
    batch = batch_of(MANY * EMPTY_RECORD, MANY, Codec.ZSTD)
    tracemalloc.start()
    try:
        records = batch.record_sequence()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert records.size_bytes == MANY * (4 + len(EMPTY_RECORD))
    assert most < 2 * records.size_bytes
    assert records[MANY - 1].value is None
