"""Message sets of version 0 and 1, read and written."""

from __future__ import annotations

import pytest
from hostile.bombs import legacy_records
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, DecompressedTooLargeError, InvalidRecordError, MalformedRecordsError
from storage.record import Codec, LegacyBatch, TimestampType, encode_entries, encode_wrapper, legacy, read_batches
from storage.record.kernel.walk import count_frames
from storage.testing import strategies
from storage.testing.codec import (
    GZIP,
    LZ4,
    OracleEntry,
    OracleRecord,
    compress,
    decode_batches,
    encode_entry,
    entry_of,
    resealed,
    wrapper_of,
)

TIME = 1_700_000_000_000


def only(data: bytes) -> LegacyBatch:
    (batch,) = read_batches(data)
    assert isinstance(batch, LegacyBatch)
    return batch


@pytest.mark.property
@given(strategies.records(with_headers=False), st.sampled_from([0, 1]), st.sampled_from(list(Codec)[:4]), st.booleans())
def test_the_oracle_reads_what_is_written(
    records: tuple[OracleRecord, ...], magic: int, codec: Codec, appended: bool
) -> None:
    timestamp_type = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
    if codec is Codec.NONE:
        data = encode_entries(records, magic, timestamp_type=timestamp_type)
        expected = [encode_entry(entry_of(r, magic, log_append_time=appended and magic > 0)) for r in records]
        assert data == b"".join(expected)
    else:
        data = encode_wrapper(records, magic, codec, timestamp_type=timestamp_type)
        (wrapper,) = decode_batches(data)
        assert isinstance(wrapper, OracleEntry)
        expected_wrapper = wrapper_of(records, magic, codec, log_append_time=appended and magic > 0)
        assert wrapper.records == expected_wrapper.records
        assert (wrapper.offset, wrapper.timestamp) == (expected_wrapper.offset, expected_wrapper.timestamp)
    batches = list(read_batches(data))
    seen = [record for batch in batches for record in batch.records()]
    assert [record.offset for record in seen] == [record.offset for record in records]
    assert [(record.key, record.value) for record in seen] == [(record.key, record.value) for record in records]


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, Codec.ZSTD), (1, Codec.ZSTD), (0, Codec.NONE), (2, Codec.GZIP), (-1, Codec.GZIP)]
)
def test_wrappers_that_do_not_exist_are_not_written(magic: int, codec: Codec) -> None:
    with pytest.raises(InvalidRecordError):
        encode_wrapper([OracleRecord(0, TIME)], magic, codec)


def test_a_wrapper_needs_a_record() -> None:
    with pytest.raises(InvalidRecordError):
        encode_wrapper([], 1, Codec.GZIP)


@pytest.mark.parametrize("first", [0, 5])
def test_a_wrapper_cannot_span_more_than_its_relative_offsets(first: int) -> None:
    with pytest.raises(InvalidRecordError):
        encode_wrapper([OracleRecord(first, TIME), OracleRecord(first + 2**31, TIME)], 1, Codec.GZIP)


def test_inner_offsets_that_run_over_wrap_around_as_on_the_jvm() -> None:
    inner = OracleEntry(offset=2**62, magic=1, timestamp=TIME), OracleEntry(offset=1, magic=1, timestamp=TIME)
    value = compress(GZIP, b"".join(encode_entry(entry) for entry in inner))
    wrapper = OracleEntry(offset=2**63 - 1, magic=1, attributes=GZIP, timestamp=TIME, value=value)
    assert [record.offset for record in only(encode_entry(wrapper)).records()] == [2**62 - 2 - 2**63, 2**63 - 1]


@pytest.mark.parametrize(
    ("records_data", "reason"),
    [
        pytest.param(b"", "holds no entries", id="empty"),
        pytest.param(encode_entry(entry_of(OracleRecord(0, TIME), 1))[:-1], "ends within an entry", id="cut short"),
        pytest.param(bytes(40), "batch length 0", id="zeros"),
        pytest.param(encode_entry(wrapper_of([OracleRecord(0, TIME)], 1, GZIP)), "another compressed", id="nested"),
    ],
)
def test_wrappers_around_nonsense_are_refused(records_data: bytes, reason: str) -> None:
    wrapper = OracleEntry(offset=9, magic=1, attributes=GZIP, timestamp=TIME, value=compress(GZIP, records_data))
    with pytest.raises(MalformedRecordsError, match=reason) as raised:
        list(next(read_batches(encode_entry(wrapper), origin=77)).records())
    assert (raised.value.position, raised.value.offset) == (77, 9)


def test_a_wrapper_without_a_value_is_refused() -> None:
    wrapper = OracleEntry(offset=9, magic=0, attributes=LZ4)
    with pytest.raises(MalformedRecordsError, match="null value"):
        list(only(encode_entry(wrapper)).records())


def test_a_wrapper_whose_offset_is_below_its_last_inner_one_is_refused() -> None:
    inner = b"".join(encode_entry(OracleEntry(offset=n, magic=1, timestamp=TIME)) for n in (0, 7))
    wrapper = OracleEntry(offset=6, magic=1, attributes=GZIP, timestamp=TIME, value=compress(GZIP, inner))
    with pytest.raises(MalformedRecordsError, match="below its last inner offset"):
        list(only(encode_entry(wrapper)).records())


@pytest.mark.parametrize("magic", [0, 1])
def test_an_entry_answers_what_a_batch_of_version_2_does(magic: int) -> None:
    batch = only(encode_entry(entry_of(OracleRecord(7, TIME, b"k", b"v"), magic)))
    assert (batch.base_offset, batch.read_first_offset(), batch.last_offset, batch.count) == (7, 7, 7, 1)
    assert batch.base_timestamp == batch.max_timestamp == (TIME if magic else -1)
    assert (batch.producer_id, batch.producer_epoch, batch.leader_epoch) == (-1, -1, -1)
    assert (batch.base_sequence, batch.last_sequence) == (-1, -1)
    assert not batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None
    assert batch.starts_at_or_after(7)
    assert not batch.starts_at_or_after(8)


def test_the_header_of_a_wrapper_says_only_where_it_ends() -> None:
    batch = only(encode_entry(wrapper_of([OracleRecord(5, TIME), OracleRecord(8, TIME + 1)], 1, GZIP)))
    assert (batch.base_offset, batch.last_offset, batch.count, batch.max_timestamp) == (8, 8, None, TIME + 1)
    assert batch.read_first_offset() == 5
    assert not batch.starts_at_or_after(5)


def test_a_wrapper_that_cannot_be_read_begins_where_it_ends() -> None:
    batch = only(encode_entry(OracleEntry(offset=9, magic=1, attributes=GZIP, timestamp=TIME, value=b"no gzip")))
    assert batch.read_first_offset() == 9


@pytest.mark.property
@given(strategies.mutated(strategies.entries().map(encode_entry)).map(resealed))
def test_damage_under_a_right_checksum_is_an_error_or_a_record(data: bytes) -> None:
    try:
        for batch in read_batches(data):
            for record in batch.records():
                assert record.offset is not None
                assert record.value is None or len(record.value) == record.value_size
    except CorruptBatchError as error:
        assert error.position is not None  # noqa: PT017 - an error is allowed, not demanded


@pytest.mark.parametrize(("codec", "magic"), [(1, 0), (3, 1)])
def test_a_wrapper_of_very_many_entries_is_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch, codec: int, magic: int
) -> None:
    monkeypatch.setattr(legacy, "_inner_entries", pytest.fail)
    wrapper = legacy_records(magic, codec, 700_000)
    with pytest.raises(DecompressedTooLargeError, match="records take about"):
        next(only(wrapper).records())


def test_frames_are_counted_up_to_one_more_than_wanted() -> None:
    entries = b"".join(encode_entry(entry_of(OracleRecord(0, 0, None, b"value"), magic=1)) for _ in range(5))
    assert [count_frames(entries, many) for many in (0, 3, 4, 5, 100)] == [1, 4, 5, 5, 5]
    assert count_frames(entries[:-1], 100) == 4
    assert count_frames(b"", 100) == count_frames(bytes(100), 100) == 0
