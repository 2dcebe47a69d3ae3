"""Records as they were decoded -> records data: offsets, timestamps and headers stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidRecordError
from storage.record import LegacyBatch, RecordBatch, read_batches
from storage.record.kernel.decode import Record, RecordIterator
from storage.record.kernel.encode import encode_records
from storage.testing import strategies
from storage.testing.codec import (
    LOG_APPEND_TIME,
    NONE,
    OracleBatch,
    OracleEntry,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_entry,
    seal_batch,
)
from storage.testing.codec import encode_records as oracle_records_data

INT32_MAX = 2**31 - 1
T = 1_700_000_000_000


def frame_of(batch: OracleBatch) -> RecordBatch:
    (frame,) = read_batches(encode_batch(batch))
    assert isinstance(frame, RecordBatch)
    return frame


@pytest.mark.property
@given(strategies.data_batches(codecs=[NONE]))
def test_records_keep_what_they_have(batch: OracleBatch) -> None:
    frame = frame_of(batch)
    records = list(frame.records())
    records_data = encode_records(records, base_offset=frame.base_offset, base_timestamp=frame.base_timestamp)
    assert (records_data.count, records_data.stop) == (len(records), len(records))
    assert records_data.base_timestamp == frame.base_timestamp
    assert records_data.max_timestamp == max(record.timestamp for record in records)
    if not batch.attributes & LOG_APPEND_TIME:
        assert bytes(records_data) == oracle_records_data(batch)
    assert list(RecordIterator(frame, records_data)) == records


@pytest.mark.property
@given(strategies.data_batches(codecs=[NONE]), st.data())
def test_some_of_the_records_keep_their_offsets(batch: OracleBatch, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(range(len(batch.records))), min_size=1))
    records = [record for index, record in enumerate(frame_of(batch).records()) if index in kept]
    records_data = encode_records(records, base_offset=batch.base_offset)
    oracle = batch_of([batch.records[index] for index in sorted(kept)], base_offset=batch.base_offset)
    assert bytes(records_data) == oracle_records_data(oracle)
    assert (records_data.base_timestamp, records_data.max_timestamp) == (oracle.base_timestamp, oracle.max_timestamp)


@pytest.mark.property
@given(strategies.entries())
def test_records_of_message_sets_become_those_of_a_batch(entry: OracleEntry) -> None:
    (legacy,) = read_batches(encode_entry(entry))
    assert isinstance(legacy, LegacyBatch)
    records = list(legacy.records())
    records_data = encode_records(records, base_offset=records[0].offset)
    assert bytes(records_data) == oracle_records_data(batch_of(entry.records))


def test_headers_are_copied_as_they_are_stored() -> None:
    body = bytes.fromhex("00 00 00 01 01 02 8200 68 8200 78")  # both sizes take a byte more than they need
    stored = bytes([2 * len(body)]) + body
    (frame,) = read_batches(seal_batch(batch_of([OracleRecord(0, T)]), stored))
    (record,) = frame.records()
    assert record.headers == (("h", b"x"),)
    assert bytes(encode_records([record], base_offset=0)) == stored


def test_no_records_make_an_empty_section() -> None:
    records_data = encode_records([], base_offset=5)
    assert bytes(records_data) == b""
    assert (records_data.count, records_data.stop, records_data.base_timestamp, records_data.max_timestamp) == (
        0,
        0,
        -1,
        -1,
    )


def test_records_that_no_batch_there_can_hold() -> None:
    oracle = batch_of([OracleRecord(100, T), OracleRecord(101, T), OracleRecord(100 + INT32_MAX, T)])
    first, second, last = frame_of(oracle).records()
    assert encode_records([first, second, last], base_offset=100).count == 3
    for records, base_offset, index in (
        ([first, second], 101, 0),
        ([first, first], 100, 1),
        ([second, first], 100, 1),
        ([first, second, last], 99, 2),
        ([first, None], 0, 1),
        ([first, (T, None, None, ())], 0, 1),
    ):
        with pytest.raises(InvalidRecordError, match=f"record {index}"):
            encode_records(records, base_offset=base_offset)  # type: ignore[arg-type]
    for arguments in ({"base_offset": -1}, {"base_offset": 2**63}, {"base_offset": 100, "base_timestamp": 2**63}):
        with pytest.raises(InvalidRecordError):
            encode_records([first], **arguments)


def test_records_made_of_nothing_are_empty() -> None:
    records_data = encode_records([Record()], base_offset=0)
    assert bytes(records_data) == bytes.fromhex("0c 00 00 00 00 00 00")
