"""The oracle's message sets of magic 0 and 1, against bytes spelled out by hand and the JVM's rules."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings

from storage.errors import ChecksumError, DecompressionError, FramingError, MalformedRecordsError
from storage.testing import strategies
from storage.testing.codec import (
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    ZSTD,
    OracleEntry,
    OracleRecord,
    compress,
    decode_batch,
    encode_entry,
    entry_of,
    resealed,
    wrapper_of,
)

deterministic = settings(derandomize=True, deadline=None)

TIME = 1_700_000_000_000
THREE = (
    OracleRecord(7, TIME, b"a", b"1"),
    OracleRecord(9, TIME + 5, b"b", None),
    OracleRecord(12, TIME + 2, None, b""),
)


def wrapping(inner: bytes, *, magic: int = 1, offset: int = 12, codec: int = GZIP, **fields: int) -> bytes:
    """A wrapper whose value is the compressed inner bytes."""
    value = compress(codec, inner, magic=magic)
    return encode_entry(OracleEntry(offset=offset, magic=magic, attributes=codec, value=value, **fields))


def inner(magic: int, *offsets: int, attributes: int = 0) -> bytes:
    return b"".join(
        encode_entry(
            OracleEntry(offset=offset, magic=magic, attributes=attributes, timestamp=TIME + offset, value=b"v")
        )
        for offset in offsets
    )


def test_entries_spelled_out() -> None:
    covered = bytes.fromhex("00 00 00000001 6b ffffffff")
    magic0 = struct.pack(">qiI", 3, 4 + len(covered), zlib.crc32(covered)) + covered
    entry = entry_of(OracleRecord(3, TIME, b"k", None), 0)
    assert encode_entry(entry) == magic0
    assert decode_batch(magic0) == entry
    assert entry.records == (OracleRecord(3, -1, b"k", None),)

    covered = bytes.fromhex("01 08 0000018bcfe56800 ffffffff 00000001 76")
    magic1 = struct.pack(">qiI", 4, 4 + len(covered), zlib.crc32(covered)) + covered
    entry = entry_of(OracleRecord(4, TIME, None, b"v"), 1, log_append_time=True)
    assert encode_entry(entry) == magic1
    assert decode_batch(magic1) == entry
    assert entry.records == (OracleRecord(4, TIME, None, b"v"),)


@pytest.mark.property
@deterministic
@given(strategies.entries())
def test_entries_read_back_as_they_were_written(entry: OracleEntry) -> None:
    data = encode_entry(entry)
    read_back = decode_batch(data)
    assert read_back == entry
    assert read_back.size_bytes == len(data)
    assert encode_entry(read_back) == data
    assert resealed(data) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_offsets_are_absolute_in_magic_0_and_relative_in_magic_1(codec: int) -> None:
    assert decode_batch(wrapping(inner(0, 7, 9, 12), magic=0, codec=codec)).records == tuple(
        OracleRecord(offset, -1, None, b"v") for offset in (7, 9, 12)
    )
    assert decode_batch(wrapping(inner(1, 0, 2, 5), codec=codec)).records == tuple(
        OracleRecord(7 + delta, TIME + delta, None, b"v") for delta in (0, 2, 5)
    )


def test_the_wrapper_that_a_broker_makes() -> None:
    wrapper = wrapper_of(THREE, 1, LZ4)
    assert (wrapper.offset, wrapper.timestamp, wrapper.key, wrapper.codec) == (12, TIME + 5, None, LZ4)
    assert (wrapper.base_offset, wrapper.last_offset, wrapper.max_timestamp) == (7, 12, TIME + 5)
    assert wrapper.records == THREE


def test_a_wrapper_at_offset_0_counts_from_0() -> None:
    entry = decode_batch(wrapping(inner(1, 0, 1, 2), offset=0))
    assert [record.offset for record in entry.records] == [0, 1, 2]
    assert (entry.base_offset, entry.last_offset) == (0, 0)


def test_append_time_of_the_wrapper_overrides_inner_timestamps() -> None:
    wrapper = wrapper_of(THREE, 1, GZIP, log_append_time=True)
    assert decode_batch(encode_entry(wrapper)) == wrapper
    assert [record.timestamp for record in wrapper.records] == [TIME + 5] * 3
    # The bit means nothing in magic 0, nor in the inner entries.
    data = wrapping(inner(1, 0, 1, attributes=LOG_APPEND_TIME), offset=1, timestamp=TIME + 9)
    assert [record.timestamp for record in decode_batch(data).records] == [TIME, TIME + 1]
    data = encode_entry(OracleEntry(offset=1, magic=0, attributes=LOG_APPEND_TIME, value=b"v"))
    assert not decode_batch(data).is_log_append_time


def test_inner_magic_other_than_the_wrappers() -> None:
    newer_within = decode_batch(wrapping(inner(1, 7, 9), magic=0, offset=9))
    assert [(record.offset, record.timestamp) for record in newer_within.records] == [(7, TIME + 7), (9, TIME + 9)]
    older_within = decode_batch(wrapping(inner(0, 0, 2), offset=9))
    assert [(record.offset, record.timestamp) for record in older_within.records] == [(7, -1), (9, -1)]
    both_within = decode_batch(wrapping(inner(0, 0) + inner(1, 2), offset=9))
    assert [(record.offset, record.timestamp) for record in both_within.records] == [(7, -1), (9, TIME + 2)]


def test_what_the_jvm_lets_pass() -> None:
    entry = entry_of(THREE[0], 1)
    assert decode_batch(resealed(encode_entry(entry) + b"more")) == entry
    # Any negative size is null, and a wrapper may have a key.
    data = encode_entry(OracleEntry(offset=5, magic=0))
    odd = resealed(data[:18] + struct.pack(">ii", -9, -(2**31)))
    assert decode_batch(odd).records == (OracleRecord(5),)
    keyed = replace(wrapper_of(THREE, 1, GZIP), key=b"key")
    assert decode_batch(encode_entry(keyed)) == keyed
    # The last inner entry may be cut short.
    cut = wrapping((inner(1, 0, 1) + inner(1, 2))[:-1], offset=6)
    assert [record.offset for record in decode_batch(cut).records] == [5, 6]


def test_magic_0_lz4_has_the_old_header_checksum() -> None:
    old = wrapper_of(THREE, 0, LZ4)
    new = wrapper_of(THREE, 1, LZ4)
    assert old.value is not None
    assert new.value is not None
    assert old.value[:7].hex() == "04224d1860401a"
    assert new.value[:7].hex() == "04224d18604082"
    for checksum in (0x1A, 0x82, 0x00):
        value = old.value[:6] + bytes([checksum]) + old.value[7:]
        assert decode_batch(encode_entry(replace(old, value=value))).records == old.records
    with pytest.raises(DecompressionError):
        decode_batch(encode_entry(replace(new, value=new.value[:6] + b"\x1a" + new.value[7:])))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(wrapping(b""), id="nothing within"),
        pytest.param(wrapping(inner(1, 0)[:-1]), id="nothing whole within"),
        pytest.param(wrapping(inner(1, 13)), id="inner offset above the wrapper's"),
        pytest.param(wrapping(wrapping(inner(1, 0), offset=0)), id="nested"),
        pytest.param(wrapping(inner(1, 0, attributes=5)), id="nested in an unknown codec"),
        pytest.param(wrapping(resealed(inner(0, 0)[:16] + b"\x02" + bytes(50))), id="a v2 batch within"),
        pytest.param(wrapping(struct.pack(">qi", 0, 13) + bytes(50)), id="inner size too small"),
        pytest.param(wrapping(resealed(inner(1, 0)[:30])), id="inner size too small for magic 1"),
        pytest.param(encode_entry(OracleEntry(offset=1, magic=1, attributes=GZIP)), id="no value"),
        pytest.param(resealed(encode_entry(entry_of(THREE[0], 0))[:-1]), id="value overruns"),
        pytest.param(resealed(encode_entry(entry_of(OracleRecord(1, -1, b"kkkk"), 0))[:26]), id="value size missing"),
        pytest.param(
            resealed(encode_entry(entry_of(THREE[0], 1))[:26] + struct.pack(">iq", 2**31 - 1, 0)), id="key overruns"
        ),
    ],
)
def test_malformed_entries(data: bytes) -> None:
    with pytest.raises(MalformedRecordsError) as caught:
        decode_batch(data)
    assert caught.value.position == 0
    assert caught.value.offset is not None


def test_checksums_of_the_entry_and_of_inner_entries() -> None:
    data = wrapping(inner(1, 0, 1))
    with pytest.raises(ChecksumError):
        decode_batch(data[:-1] + bytes([data[-1] ^ 1]))
    damaged = inner(1, 0, 1)
    with pytest.raises(ChecksumError):
        decode_batch(wrapping(damaged[:-1] + b"w"))


def test_a_value_that_does_not_decompress() -> None:
    for value in (b"", b"rubbish", compress(GZIP, inner(1, 0))[:-1]):
        with pytest.raises(DecompressionError):
            decode_batch(encode_entry(OracleEntry(offset=1, magic=1, attributes=GZIP, value=value)))


@pytest.mark.parametrize("magic", [0, 1])
def test_codecs_that_message_sets_do_not_have(magic: int) -> None:
    with pytest.raises(DecompressionError):
        decode_batch(wrapping(inner(magic, 0), magic=magic, codec=ZSTD))
    for codec in (5, 6, 7):
        with pytest.raises(FramingError):
            decode_batch(encode_entry(OracleEntry(offset=1, magic=magic, attributes=codec, value=b"v")))


def test_an_entry_of_magic_1_shorter_than_its_fields() -> None:
    data = encode_entry(OracleEntry(offset=1, magic=1))
    assert len(data) == 34
    for size in range(26, 34):
        with pytest.raises(MalformedRecordsError):
            decode_batch(resealed(data[:size]))
        with pytest.raises(ChecksumError):
            decode_batch(data[:8] + struct.pack(">i", size - 12) + data[12:size])
