"""The oracle's compressed records: framed as Kafka frames them, whole or refused."""

from __future__ import annotations

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import DecompressionError, FramingError, InvalidRecordError
from storage.testing.checksums import xxhash32
from storage.testing.codec import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

deterministic = settings(derandomize=True, deadline=None)

COMPRESSING = CODECS[1:]
TEXT = b"the quick brown fox jumps over the lazy dog " * 5000


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"a", TEXT], ids=["empty", "a byte", "blocks"])
def test_sections_read_back(codec: int, magic: int, data: bytes) -> None:
    records_data = compress(codec, data, magic=magic)
    assert decompress(codec, records_data, magic=magic) == data
    assert codec == NONE or len(data) < 100 or len(records_data) < len(data) / 4


@pytest.mark.property
@deterministic
@given(st.sampled_from(COMPRESSING), st.binary(max_size=200), st.data())
def test_sections_cut_short_are_refused(codec: int, data: bytes, draw: st.DataObject) -> None:
    records_data = compress(codec, data)
    kept = draw.draw(st.integers(0, len(records_data) - 1))
    if codec == SNAPPY and kept == 16:
        return  # a xerial stream may end after its header and after any block
    with pytest.raises(DecompressionError):
        decompress(codec, records_data[:kept])


@pytest.mark.parametrize("codec", COMPRESSING)
def test_sections_followed_by_other_bytes_are_refused(codec: int) -> None:
    with pytest.raises(DecompressionError):
        decompress(codec, compress(codec, TEXT) + b"\x00")


def test_streams_of_several_members() -> None:
    assert decompress(GZIP, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    frame = zstandard.ZstdCompressor().compress(b"a")
    assert decompress(ZSTD, frame + frame) == b"aa"
    assert decompress(SNAPPY, compress(SNAPPY, b"a") + compress(SNAPPY, b"b")) == b"ab"


def test_xerial_framing() -> None:
    records_data = compress(SNAPPY, TEXT)
    assert records_data[:16].hex() == "82534e41505059000000000100000001"
    (first,) = struct.unpack_from(">i", records_data, 16)
    assert cramjam.snappy.decompress_raw_len(records_data[20 : 20 + first]) == 32 * 1024
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    for block in (b"\xff\xff\xff\xff", struct.pack(">i", 2) + b"a", struct.pack(">i", 2**31 - 1) + b"a"):
        with pytest.raises(DecompressionError):
            decompress(SNAPPY, records_data[:16] + block)
    with pytest.raises(DecompressionError):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f\x00")


def test_lz4_frames_are_those_that_the_jvm_reads() -> None:
    frame = compress(LZ4, TEXT)
    assert frame[:7].hex() == "04224d18604082"
    assert frame[-4:] == b"\x00" * 4
    assert compress(LZ4, TEXT, magic=0) == frame[:6] + b"\x1a" + frame[7:]


def test_lz4_header_checksums_are_ignored_in_magic_0() -> None:
    for store_size in (False, True):
        frame = lz4.frame.compress(TEXT, store_size=store_size)
        end = 14 if store_size else 6
        assert decompress(LZ4, frame[:end] + bytes([frame[end] ^ 0xFF]) + frame[end + 1 :], magic=0) == TEXT
        with pytest.raises(DecompressionError):
            decompress(LZ4, frame[:end] + bytes([frame[end] ^ 0xFF]) + frame[end + 1 :])


@pytest.mark.parametrize("size", [2**31, 2**62, 2**64 - 1])
def test_sizes_that_frames_only_claim_are_not_allocated(size: int) -> None:
    frame = lz4.frame.compress(b"abc", store_size=True)
    descriptor = frame[4:6] + struct.pack("<Q", size)
    checksum = bytes([xxhash32(descriptor) >> 8 & 0xFF])
    assert decompress(LZ4, frame[:4] + descriptor + checksum + frame[15:]) == b"abc"


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    with pytest.raises(FramingError):
        decompress(codec, b"")
    with pytest.raises(InvalidRecordError):
        compress(codec, b"")
