"""Large results of decoding have room in the memory budget, and what never fits is refused before it is built."""

from __future__ import annotations

import pytest
from hostile.bombs import varint

from storage.budget import Budget
from storage.errors import DecompressedTooLargeError
from storage.record.compression import Codec, compress
from storage.record.kernel.records_data import seal
from storage.record.leased import (
    RECORD_BYTES,
    TRIAL_BYTES_MAX,
    UNLEASED_BYTES_MAX,
    begin_trial,
    decompress_leased,
    end_trial,
    with_objects,
)
from storage.record.reading import read_batches

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT_BYTES = 2**40


def batch_of(records: bytes, count: int, codec: Codec = Codec.ZSTD) -> bytes:
    return seal(
        compress(codec, records),
        base_offset=0,
        leader_epoch=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def record_of_headers(headers: int) -> bytes:
    body = b"\0\0\0" + varint(-1) + varint(-1) + varint(headers) + b"\0\1" * headers
    return varint(len(body)) + body


@pytest.mark.parametrize("codec", CODECS)
def test_little_data_needs_no_lease(codec: Codec) -> None:
    budget = Budget(64)
    data = bytes(UNLEASED_BYTES_MAX)
    assert decompress_leased(codec, compress(codec, data), limit_bytes=LIMIT_BYTES, budget=budget) == data
    assert budget.left_bytes == 64


@pytest.mark.parametrize("codec", CODECS)
def test_large_data_is_leased_until_nothing_refers_to_it(codec: Codec) -> None:
    size_bytes = UNLEASED_BYTES_MAX + 1
    budget = Budget(8 * size_bytes)
    data = decompress_leased(codec, compress(codec, bytes(size_bytes)), limit_bytes=LIMIT_BYTES, budget=budget)
    assert budget.left_bytes == 7 * size_bytes
    part = memoryview(data)[:10]
    assert bytes(part) == bytes(10)
    del data
    assert budget.left_bytes == 7 * size_bytes
    del part
    assert budget.left_bytes == 8 * size_bytes


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_a_share_is_refused(codec: Codec) -> None:
    budget = Budget(4 * TRIAL_BYTES_MAX + 4)
    stored = compress(codec, bytes(TRIAL_BYTES_MAX + 2))
    with pytest.raises(DecompressedTooLargeError, match="segments/ and kafkafs dump show the batch"):
        decompress_leased(codec, stored, limit_bytes=LIMIT_BYTES, budget=budget)
    assert budget.left_bytes == 4 * TRIAL_BYTES_MAX + 4


@pytest.mark.parametrize("codec", CODECS)
def test_few_threads_at_a_time_decode_much_without_a_lease(codec: Codec) -> None:
    size_bytes = UNLEASED_BYTES_MAX + 1
    stored = compress(codec, bytes(size_bytes))
    budget = Budget(TRIAL_BYTES_MAX)
    trials = []
    while (bytes_max := begin_trial()) == TRIAL_BYTES_MAX:
        trials.append(bytes_max)
    try:
        with pytest.raises(DecompressedTooLargeError):
            decompress_leased(codec, stored, limit_bytes=LIMIT_BYTES, budget=budget)
        budget = Budget(8 * TRIAL_BYTES_MAX)
        assert memoryview(decompress_leased(codec, stored, limit_bytes=LIMIT_BYTES, budget=budget)) == bytes(size_bytes)
    finally:
        for bytes_max in trials:
            end_trial(bytes_max)
    assert budget.left_bytes == 8 * TRIAL_BYTES_MAX


def test_many_records_lease_room_for_their_objects() -> None:
    many = UNLEASED_BYTES_MAX // RECORD_BYTES + 1
    data = bytes(7 * many)
    budget = Budget(8 * UNLEASED_BYTES_MAX)
    leased = with_objects(data, many, budget=budget)
    assert budget.left_bytes == 8 * UNLEASED_BYTES_MAX - many * RECORD_BYTES
    assert memoryview(leased) == data
    del leased
    assert budget.left_bytes == 8 * UNLEASED_BYTES_MAX
    with pytest.raises(DecompressedTooLargeError, match=f"the batch's {4 * many} records take about"):
        with_objects(4 * data, 4 * many, budget=budget)


def test_a_count_that_the_data_cannot_hold_leases_nothing() -> None:
    assert with_objects(b"few", 2**31 - 1, budget=Budget(1)) == b"few"


def test_a_batch_of_too_many_records_is_refused_before_they_are_built() -> None:
    record = varint(6) + b"\0\0\0" + varint(-1) + varint(-1) + b"\0"
    count = 3_000_000
    (batch,) = read_batches(batch_of(record * count, count))
    with pytest.raises(DecompressedTooLargeError, match=f"the batch's {count} records take about"):
        batch.records()


def test_the_headers_of_a_record_are_not_built_if_they_are_too_many() -> None:
    (batch,) = read_batches(batch_of(record_of_headers(1_000_001), 1))
    (record,) = batch.records()
    assert (record.header_count, record.value) == (1_000_001, None)
    with pytest.raises(DecompressedTooLargeError, match="the record has 1000001 headers"):
        _ = record.headers


def test_as_many_headers_as_may_be_are_built() -> None:
    (batch,) = read_batches(batch_of(record_of_headers(1_000_000), 1))
    (record,) = batch.records()
    assert len(record.headers) == 1_000_000
    assert set(record.headers) == {("", None)}
