"""What makes a batch unsound, beyond its own checksum, in each format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.errors import ChecksumError, CorruptBatchError, MalformedRecordsError
from storage.record import Codec, read_batches
from storage.testing.codec import (
    COMMIT,
    CONTROL,
    TRANSACTIONAL,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_control_key,
    resealed,
)
from storage.testing.compressed import compress
from storage.testing.legacy_codec import encode_entry, entry_of, wrapper_of
from storage.verify.batch_check import check_batch

RECORDS = [OracleRecord(10 + at, 1000 + at, b"key", b"value") for at in range(4)]


def check(data: bytes) -> tuple[int, bool]:
    checked = check_batch(next(read_batches(data)))
    return checked.first_offset, checked.is_gapless


@pytest.mark.parametrize("codec", Codec)
def test_a_sound_batch(codec: Codec) -> None:
    assert check(encode_batch(batch_of(RECORDS, attributes=codec))) == (10, True)
    compacted = [RECORDS[0], RECORDS[2]]
    assert check(encode_batch(batch_of(compacted, attributes=codec))) == (10, False)


def test_a_batch_that_lost_all_its_records() -> None:
    empty = replace(batch_of(RECORDS), records=(), record_count=0, last_offset_delta=3)
    assert check(encode_batch(empty)) == (10, False)


def test_offsets_within_a_batch() -> None:
    batch = batch_of(RECORDS)
    swapped = replace(batch, records=(RECORDS[1], RECORDS[0], *RECORDS[2:]))
    with pytest.raises(MalformedRecordsError, match="a record has the offset 10, between 11 and"):
        check(encode_batch(swapped))
    beyond = replace(batch, records=(RECORDS[0], replace(RECORDS[1], offset=14)), record_count=2, last_offset_delta=3)
    with pytest.raises(MalformedRecordsError, match="a record has the offset 14"):
        check(encode_batch(beyond))
    with pytest.raises(MalformedRecordsError, match="declares 4 records and a last offset delta of 2"):
        check(encode_batch(replace(batch, last_offset_delta=2)))


def test_control_records() -> None:
    def control(value: bytes | None) -> bytes:
        record = OracleRecord(5, 1000, encode_control_key(COMMIT), value)
        return encode_batch(batch_of([record], attributes=CONTROL | TRANSACTIONAL, producer_id=7, producer_epoch=0))

    assert check(control(b"\0\0\0\0\0\1")) == (5, True)
    for value in (None, b"\0"):
        with pytest.raises(MalformedRecordsError):
            check(control(value))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_wrappers(magic: int, codec: Codec) -> None:
    records = [replace(record, timestamp=record.timestamp if magic else -1) for record in RECORDS]
    wrapper = wrapper_of(records, magic, codec)
    assert check(encode_entry(wrapper)) == (10, True)
    assert check(encode_entry(wrapper_of([records[0], records[3]], magic, codec))) == (10, False)
    inner = [
        entry_of(replace(record, offset=record.offset if magic == 0 else at), magic)
        for at, record in enumerate(records)
    ]

    def wrapped(records_data: bytes) -> bytes:
        return encode_entry(replace(wrapper, value=compress(codec, records_data, magic=magic)))

    encoded = [encode_entry(entry) for entry in inner]
    assert check(wrapped(b"".join(encoded))) == (10, True)
    with pytest.raises(MalformedRecordsError, match="within the wrapper has the offset"):
        check(wrapped(encoded[1] + encoded[0] + encoded[3]))
    broken = bytearray(encoded[1])
    broken[-1] ^= 1
    with pytest.raises(ChecksumError, match="within the wrapper"):
        check(wrapped(encoded[0] + broken + b"".join(encoded[2:])))
    with pytest.raises(CorruptBatchError):
        check(wrapped(b""))


def test_an_entry_by_itself() -> None:
    data = encode_entry(entry_of(RECORDS[0], 1))
    assert check(data) == (10, True)
    with pytest.raises(ChecksumError):
        check(data[:-1] + b"?")
    assert check(resealed(data[:-1] + b"?")) == (10, True)
