"""The oracle's v2 batches, control records and framing, against golden vectors and the JVM's rules."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import (
    ChecksumError,
    CorruptBatchError,
    DecompressionError,
    FramingError,
    MalformedRecordsError,
)
from storage.testing import strategies
from storage.testing.codec import (
    ABORT,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    OracleBatch,
    OracleRecord,
    batch_of,
    batch_spans,
    decode_batch,
    decode_batches,
    decode_control_key,
    decode_end_transaction,
    encode_batch,
    encode_control_key,
    encode_end_transaction,
    encode_records,
    resealed,
    seal_batch,
    write_varint,
)

deterministic = settings(derandomize=True, deadline=None)

GOLDEN_DATA = bytes.fromhex(
    "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffff"
    "ffff0000000210000000026b02760018000a02046b32010202680278"
)
GOLDEN_COMMIT = bytes.fromhex(
    "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe5680000000000000000090002ffff"
    "ffff000000012000000008000000010c00000000000300"
)
TIME = 1_700_000_000_000


def plain(records_data: bytes, *, record_count: int = 1, **fields: int) -> bytes:
    """A batch at offset 100 with these bytes for its records."""
    batch = batch_of([OracleRecord(100, TIME)])
    return seal_batch(replace(batch, record_count=record_count, **fields), records_data)


def body(*parts: bytes) -> bytes:
    """A record of attributes 0 made of the parts that follow them."""
    whole = b"\x00" + b"".join(parts)
    return write_varint(len(whole)) + whole


ZERO, NULL = write_varint(0), write_varint(-1)


# --- golden vectors and round trips


def test_golden_data_batch() -> None:
    batch = decode_batch(GOLDEN_DATA)
    assert isinstance(batch, OracleBatch)
    assert batch.records == (
        OracleRecord(0, TIME, b"k", b"v"),
        OracleRecord(1, TIME + 5, b"k2", None, (("h", b"x"),)),
    )
    assert (batch.size_bytes, batch.last_offset, batch.max_timestamp) == (83, 1, TIME + 5)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert encode_batch(batch) == GOLDEN_DATA
    assert encode_batch(batch_of(batch.records)) == GOLDEN_DATA


def test_golden_commit_marker() -> None:
    batch = decode_batch(GOLDEN_COMMIT)
    assert isinstance(batch, OracleBatch)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.size_bytes, batch.base_offset, batch.producer_id, batch.producer_epoch) == (78, 7, 9, 2)
    assert decode_control_key(batch.records[0].key) == (0, COMMIT)
    assert decode_end_transaction(batch.records[0].value) == (0, 3)
    assert encode_batch(batch) == GOLDEN_COMMIT
    marker = OracleRecord(7, TIME, encode_control_key(COMMIT), encode_end_transaction(3))
    made = batch_of([marker], attributes=CONTROL | TRANSACTIONAL, producer_id=9, producer_epoch=2)
    assert encode_batch(made) == GOLDEN_COMMIT


@pytest.mark.property
@deterministic
@given(strategies.batches())
def test_batches_read_back_as_they_were_written(batch: OracleBatch) -> None:
    data = encode_batch(batch)
    read_back = decode_batch(data)
    assert read_back == batch
    assert read_back.size_bytes == len(data)
    assert encode_batch(read_back) == data


@pytest.mark.property
@deterministic
@given(strategies.logs())
def test_logs_read_back_as_they_were_written(units: tuple[OracleBatch, ...]) -> None:
    data = b"".join(strategies.encoded(unit) for unit in units)
    assert tuple(decode_batches(data)) == units


@pytest.mark.property
@deterministic
@given(strategies.damaged_batches())
def test_damage_gives_records_or_an_error_of_the_tree(data: bytes) -> None:
    with suppress(CorruptBatchError):
        decode_batch(data)


@pytest.mark.property
@deterministic
@given(strategies.batches(), st.data())
def test_a_flipped_bit_under_the_checksum_is_noticed(batch: OracleBatch, data: st.DataObject) -> None:
    damaged = bytearray(encode_batch(batch))
    damaged[data.draw(st.integers(21, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ChecksumError):
        decode_batch(bytes(damaged))
    assert resealed(encode_batch(batch)) == encode_batch(batch)


# --- what a header makes of its records


def test_append_time_overrides_every_delta() -> None:
    records = [OracleRecord(5, TIME), OracleRecord(6, TIME + 9), OracleRecord(7, TIME + 3)]
    batch = batch_of(records, attributes=LOG_APPEND_TIME)
    written = encode_batch(replace(batch, records=tuple(records)))
    assert [record.timestamp for record in decode_batch(written).records] == [TIME + 9] * 3


def test_deltas_count_from_the_delete_horizon() -> None:
    records = [OracleRecord(5, TIME), OracleRecord(6, TIME + 9)]
    batch = decode_batch(encode_batch(batch_of(records, attributes=DELETE_HORIZON, base_timestamp=TIME + 86_400_000)))
    assert isinstance(batch, OracleBatch)
    assert batch.delete_horizon_ms == TIME + 86_400_000
    assert [record.timestamp for record in batch.records] == [TIME, TIME + 9]


def test_sequences_follow_offsets_and_wrap_to_zero() -> None:
    records = [OracleRecord(10), OracleRecord(11), OracleRecord(12), OracleRecord(15)]
    batch = decode_batch(encode_batch(batch_of(records, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)))
    assert isinstance(batch, OracleBatch)
    assert [record.sequence for record in batch.records] == [2**31 - 2, 2**31 - 1, 0, 3]
    assert batch.last_sequence == 3


def test_offsets_and_timestamps_wrap_like_java_longs() -> None:
    records_data = body(write_varint(2**63 - 1), write_varint(2**31 - 1), NULL, NULL, ZERO)
    (record,) = decode_batch(plain(records_data, base_offset=2**63 - 1, base_timestamp=2)).records
    assert record.offset == -(2**63) + 2**31 - 2
    assert record.timestamp == -(2**63) + 1


def test_only_the_low_byte_of_the_attributes_is_read() -> None:
    batch = replace(batch_of([OracleRecord(0, TIME, b"k", b"v")]), attributes=0x7F80)
    assert decode_batch(encode_batch(batch)) == batch


def test_a_batch_without_records_is_not_looked_into() -> None:
    assert decode_batch(plain(b"rubbish", record_count=0, attributes=GZIP)).records == ()


# --- records that are odd, and records that are none


def test_every_negative_length_is_null() -> None:
    headers = write_varint(1) + write_varint(1) + b"h" + write_varint(-7)
    records_data = body(ZERO, ZERO, write_varint(-5), write_varint(-(2**31)), headers)
    assert decode_batch(plain(records_data)).records == (OracleRecord(100, TIME, None, None, (("h", None),)),)


def test_overlong_varints_and_record_attributes_are_accepted() -> None:
    whole = b"\x7f" + b"\x80\x00" + b"\x82\x00" + b"\x82\x80\x00k" + NULL + b"\x80\x80\x80\x80\x00"
    overlong_length = bytes([len(whole) * 2 | 0x80, 0])
    assert decode_batch(plain(overlong_length + whole)).records == (OracleRecord(101, TIME, b"k"),)


def test_header_keys_that_are_not_utf8_lose_nothing() -> None:
    header = write_varint(1) + write_varint(3) + b"a\xffb" + write_varint(0)
    (record,) = decode_batch(plain(body(ZERO, ZERO, NULL, NULL, header))).records
    assert record.headers == (("a\udcffb", b""),)


SOUND = body(ZERO, ZERO, NULL, NULL, ZERO)


@pytest.mark.parametrize(
    ("records_data", "record_count"),
    [
        pytest.param(SOUND, 2, id="too few records"),
        pytest.param(SOUND * 2, 1, id="too many records"),
        pytest.param(SOUND + b"\x00", 1, id="a byte left over"),
        pytest.param(SOUND[:-1], 1, id="cut short"),
        pytest.param(b"", 1, id="nothing"),
        pytest.param(SOUND, -1, id="negative count"),
        pytest.param(b"\x01" + SOUND[1:], 1, id="negative body length"),
        pytest.param(b"\x00", 1, id="empty body"),
        pytest.param(bytes([SOUND[0] + 2]) + SOUND[1:] + b"\x00", 1, id="body not consumed"),
        pytest.param(bytes([SOUND[0] - 2]) + SOUND[1:], 1, id="body too short for its fields"),
        pytest.param(body(ZERO, ZERO, write_varint(9), NULL, ZERO), 1, id="key overruns"),
        pytest.param(body(ZERO, ZERO, NULL, write_varint(2**31 - 1), ZERO), 1, id="value overruns"),
        pytest.param(body(ZERO, ZERO, NULL, NULL, NULL), 1, id="negative header count"),
        pytest.param(body(ZERO, ZERO, NULL, NULL, write_varint(2**31 - 1)), 1, id="absurd header count"),
        pytest.param(body(ZERO, ZERO, NULL, NULL, write_varint(2), NULL, NULL), 1, id="header without key"),
        pytest.param(body(ZERO, ZERO, NULL, NULL, write_varint(1), ZERO), 1, id="header without value"),
        pytest.param(body(ZERO, b"\x80" * 5 + b"\x00", NULL, NULL, ZERO), 1, id="endless varint"),
    ],
)
def test_malformed_records(records_data: bytes, record_count: int) -> None:
    with pytest.raises(MalformedRecordsError) as caught:
        decode_batch(b"before" + plain(records_data, record_count=record_count), 6)
    assert (caught.value.position, caught.value.offset) == (6, 100)


def test_a_section_that_does_not_decompress() -> None:
    batch = batch_of([OracleRecord(100, TIME)], attributes=GZIP)
    with pytest.raises(DecompressionError) as caught:
        decode_batch(seal_batch(batch, encode_records(batch)))
    assert (caught.value.position, caught.value.offset) == (0, 100)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    with pytest.raises(FramingError):
        decode_batch(plain(SOUND, attributes=codec))


# --- framing


def test_a_log_ends_where_a_batch_breaks_off() -> None:
    log = GOLDEN_DATA + GOLDEN_COMMIT
    spans = [(0, 83), (83, 161)]
    for size in range(84, 161):
        # Seventeen bytes or less of a batch are not even looked at.
        assert list(batch_spans(log[:size])) == spans[:1]
    assert list(batch_spans(log)) == spans
    assert list(batch_spans(log + b"\xff" * 17)) == spans
    assert list(batch_spans(b"")) == []


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_lengths_that_no_batch_has(length: int) -> None:
    tail = struct.pack(">qi", 5, length) + b"\x00" * 6
    batches = decode_batches(GOLDEN_DATA + tail)
    assert next(batches).base_offset == 0
    with pytest.raises(FramingError) as caught:
        next(batches)
    assert (caught.value.position, caught.value.offset) == (83, 5)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_magic_that_does_not_exist(magic: int) -> None:
    with pytest.raises(FramingError):
        decode_batch(GOLDEN_DATA[:16] + bytes([magic]) + GOLDEN_DATA[17:])


def test_a_v2_batch_shorter_than_its_header() -> None:
    for size in range(26, 61):
        with pytest.raises(FramingError):
            decode_batch(resealed(GOLDEN_DATA[:size]))
    assert decode_batch(resealed(GOLDEN_DATA[:57] + b"\x00" * 4)).records == ()


def test_a_batch_that_runs_past_the_data() -> None:
    for size in range(len(GOLDEN_DATA)):
        with pytest.raises(FramingError):
            decode_batch(GOLDEN_DATA[:size])


# --- control records


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_keys_that_no_control_record_has(key: bytes | None) -> None:
    with pytest.raises(MalformedRecordsError):
        decode_control_key(key)


@pytest.mark.parametrize("value", [None, b"\x00\x00\x00\x00\x00", b"\x80\x00\x00\x00\x00\x00"])
def test_values_that_no_marker_has(value: bytes | None) -> None:
    with pytest.raises(MalformedRecordsError):
        decode_end_transaction(value)


@pytest.mark.property
@deterministic
@given(st.integers(0, 2**15 - 1), st.sampled_from([ABORT, COMMIT]), st.integers(-(2**31), 2**31 - 1), st.binary())
def test_later_versions_of_control_records_are_read(version: int, kind: int, epoch: int, more: bytes) -> None:
    assert decode_control_key(encode_control_key(kind, version=version) + more) == (version, kind)
    assert decode_end_transaction(encode_end_transaction(epoch, version=version) + more) == (version, epoch)
