"""Codecs: round trips, what others write and read, and every way in which a stream can be wrong or too large."""

from __future__ import annotations

import gzip
import json
import random
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Barrier

import aiokafka.codec
import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import (
    CorruptBatchError,
    DecompressedTooLargeError,
    DecompressionError,
    FramingError,
    InvalidRecordError,
)
from storage.record.compression import Codec, codec_of, compress, decompress, level_range

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importing kafka-python calls what Python has deprecated
    import kafka.codec

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")
LZ4_MAGIC = bytes.fromhex("04224d18")
LZ4_END = bytes(4)
ZSTD_HEADER = bytes.fromhex("28b52ffd0058")  # no content size, no checksum, a window of 2 MiB
SKIPPABLE = bytes.fromhex("502a4d18") + struct.pack("<I", 3) + b"abc"


@cache
def sample(size_bytes: int) -> bytes:
    """What records look like: half text that repeats, half numbers that do not."""
    numbers = random.Random(size_bytes)
    lines = bytearray()
    while len(lines) < size_bytes:
        lines += json.dumps({"id": numbers.getrandbits(40), "user": f"user-{numbers.randrange(50)}"}).encode()
    return bytes(lines[:size_bytes])


def lz4_header(flags: int, descriptor: int = 0x40, rest: bytes = b"") -> bytes:
    described = bytes([flags, descriptor]) + rest
    return LZ4_MAGIC + described + bytes([xxhash.xxh32_intdigest(described) >> 8 & 0xFF])


def lz4_stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


def zstd_block(kind: int, length: int, content: bytes, *, last: bool) -> bytes:
    return (length << 3 | kind << 1 | last).to_bytes(3, "little") + content


def zstd_header(declared_bytes: int) -> bytes:
    return bytes.fromhex("28b52ffdc058") + struct.pack("<Q", declared_bytes)


def raw_snappy(declared_bytes: int, body: bytes) -> bytes:
    preamble = bytearray()
    while declared_bytes >= 0x80:
        preamble.append(declared_bytes & 0x7F | 0x80)
        declared_bytes >>= 7
    return bytes([*preamble, declared_bytes]) + body


def xerial(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def test_the_attributes_low_three_bits_name_the_codec() -> None:
    for codec in Codec:
        assert codec_of(0xF8 | codec) is codec
        assert Codec.named(codec.label) is codec
    assert [codec.label for codec in Codec] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert Codec.named("uncompressed") is Codec.NONE
    for number in (5, 6, 7):
        with pytest.raises(FramingError, match=f"codec {number}"):
            codec_of(0x10 | number)
    with pytest.raises(InvalidRecordError, match="producer"):
        Codec.named("producer")


@pytest.mark.property
@given(st.sampled_from(Codec), st.binary(max_size=5000), st.integers(1, 40), st.integers(0, 2))
def test_what_was_compressed_comes_back(codec: Codec, data: bytes, times: int, magic: int) -> None:
    magic = 2 if codec is Codec.ZSTD else magic
    stored = compress(codec, memoryview(data * times), magic=magic)
    assert decompress(codec, stored, magic=magic, limit_bytes=len(data) * times) == data * times


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, -1)]
    + [(codec, level) for codec in (Codec.GZIP, Codec.LZ4) for level in level_range(codec)]
    + [(Codec.ZSTD, level) for level in (-131072, -7, -1, *range(23))],
)
def test_every_level_comes_back(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, sample(200_000), level=level)) == sample(200_000)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.NONE, (0, 1)),
        (Codec.GZIP, (-2, 0, 10)),
        (Codec.SNAPPY, (0, 1)),
        (Codec.LZ4, (-1, 0, 18)),
        (Codec.ZSTD, (-131073, 23)),
    ],
)
def test_a_level_that_the_codec_lacks_cannot_be_written(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        with pytest.raises(InvalidRecordError, match=f"{codec.label} has no level {level}"):
            compress(codec, b"data", level=level)


def test_gzip_levels_are_zlibs_and_the_default_is_fast() -> None:
    data = sample(50_000)
    for level in range(1, 10):
        assert compress(Codec.GZIP, data, level=level) == zlib.compress(data, level, 31)
    assert compress(Codec.GZIP, data) == compress(Codec.GZIP, data, level=-1)
    assert len(compress(Codec.GZIP, data)) < 1.15 * len(zlib.compress(data, 6, 31))


def test_lz4_levels_are_the_fast_one_at_9_and_the_high_compressors_elsewhere() -> None:
    sizes = {level: len(compress(Codec.LZ4, sample(100_000), level=level)) for level in range(1, 18)}
    assert len(compress(Codec.LZ4, sample(100_000))) == sizes[9] == max(sizes.values())
    assert sizes[1] == sizes[2] == sizes[3] >= sizes[8] >= sizes[12]
    assert sizes[12] == sizes[13] == sizes[17]


def test_framings_are_those_that_java_writes() -> None:
    data = sample(100_000)
    assert compress(Codec.LZ4, data).startswith(bytes.fromhex("04224d18604082"))
    assert compress(Codec.LZ4, data, magic=0).startswith(bytes.fromhex("04224d1860401a"))
    assert compress(Codec.LZ4, data).endswith(LZ4_END)
    assert compress(Codec.SNAPPY, data).startswith(XERIAL_HEADER)
    frame = zstandard.get_frame_parameters(compress(Codec.ZSTD, data))
    assert (frame.content_size, frame.has_checksum) == (zstandard.CONTENTSIZE_UNKNOWN, False)


FOREIGN = [
    (Codec.GZIP, 2, gzip.compress, gzip.decompress),
    (Codec.GZIP, 2, aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    (Codec.GZIP, 2, kafka.codec.gzip_encode, kafka.codec.gzip_decode),
    (Codec.SNAPPY, 2, aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    (Codec.SNAPPY, 2, kafka.codec.snappy_encode, kafka.codec.snappy_decode),
    (Codec.SNAPPY, 2, lambda data: kafka.codec.snappy_encode(data, xerial_compatible=False), None),
    (Codec.LZ4, 2, aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    (Codec.LZ4, 1, kafka.codec.lz4_encode, kafka.codec.lz4_decode),
    (Codec.LZ4, 0, kafka.codec.lz4_encode_old_kafka, kafka.codec.lz4_decode_old_kafka),
    (Codec.ZSTD, 2, aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
    (Codec.ZSTD, 2, kafka.codec.zstd_encode, kafka.codec.zstd_decode),
]


@pytest.mark.golden
@pytest.mark.parametrize(("codec", "magic", "encode", "decode"), FOREIGN)
@pytest.mark.parametrize("size_bytes", [1, 32768, 32769, 300_000])
def test_other_clients_read_and_write_the_same(codec, magic, encode, decode, size_bytes) -> None:
    data = sample(size_bytes)
    assert decompress(codec, bytes(encode(data)), magic=magic) == data
    if decode is not None:
        assert bytes(decode(compress(codec, data, magic=magic))) == data


def test_results_are_their_own_and_any_buffer_will_do() -> None:
    for codec in Codec:
        source = bytearray(b"..." + compress(codec, sample(1000)) + b"...")
        result = decompress(codec, memoryview(source)[3:-3])
        source[:] = bytes(len(source))
        assert result == sample(1000)


def test_zstd_is_not_for_message_sets() -> None:
    for magic in (0, 1):
        with pytest.raises(DecompressionError, match="message sets"):
            decompress(Codec.ZSTD, compress(Codec.ZSTD, b"data"), magic=magic)
        with pytest.raises(InvalidRecordError, match="message sets"):
            compress(Codec.ZSTD, b"data", magic=magic)


GZIP_FIELDS = bytes.fromhex("1f8b081c0000000000ff") + b"\x04\x00abcdname\x00comment\x00"
GZIP_PARTS = [sample(size_bytes) for size_bytes in (16_000, 16_300, 1, 0, 40_000)]
SNAPPY_X = b"\x01\x00x"
ZSTD_AB = zstd_block(0, 2, b"ab", last=True)
ZSTD_A = zstandard.ZstdCompressor(write_checksum=True).compress(b"a" * 500)
ONE_STREAM = {
    "gzip members": (Codec.GZIP, b"".join(map(gzip.compress, GZIP_PARTS)), b"".join(GZIP_PARTS)),
    "gzip header fields": (Codec.GZIP, GZIP_FIELDS + gzip.compress(b"fields")[10:], b"fields"),
    "zstd frames": (Codec.ZSTD, compress(Codec.ZSTD, b"one") + ZSTD_A + compress(Codec.ZSTD, b""), b"one" + b"a" * 500),
    "skippable zstd": (Codec.ZSTD, SKIPPABLE + ZSTD_A + SKIPPABLE + ZSTD_A + SKIPPABLE, b"a" * 1000),
    "skippable zstd only": (Codec.ZSTD, SKIPPABLE, b""),
    "stored and repeated zstd": (
        Codec.ZSTD,
        ZSTD_HEADER + zstd_block(0, 2, b"ab", last=False) + zstd_block(1, 9, b"c", last=True),
        b"ab" + b"c" * 9,
    ),
    "zstd of a 128 MiB window": (
        Codec.ZSTD,
        bytes.fromhex("28b52ffd0088") + zstd_block(1, 9, b"c", last=True),
        b"c" * 9,
    ),
    "xerial streams": (Codec.SNAPPY, xerial(SNAPPY_X) + xerial(SNAPPY_X, SNAPPY_X), b"xxx"),
    "xerial stream of nothing": (Codec.SNAPPY, XERIAL_HEADER, b""),
    "xerial versions": (Codec.SNAPPY, XERIAL_HEADER[:8] + bytes(8) + xerial(SNAPPY_X)[16:], b"x"),
    "linked lz4 blocks": (Codec.LZ4, lz4.frame.compress(sample(300_000), block_linked=True), sample(300_000)),
    "large lz4 blocks": (Codec.LZ4, lz4.frame.compress(sample(300_000), block_size=7), sample(300_000)),
    "lz4 block checksums": (Codec.LZ4, lz4.frame.compress(sample(5_000), block_checksum=True), sample(5_000)),
    "stored lz4 block": (Codec.LZ4, lz4_header(0x60) + lz4_stored(b"abc") + LZ4_END, b"abc"),
}


@pytest.mark.parametrize(("codec", "stored", "expected"), ONE_STREAM.values(), ids=ONE_STREAM)
def test_every_legal_form_is_read_up_to_the_very_limit(codec: Codec, stored: bytes, expected: bytes) -> None:
    assert decompress(codec, stored, limit_bytes=len(expected)) == expected
    if expected:
        with pytest.raises(DecompressedTooLargeError, match=f"limit of {len(expected) - 1} bytes"):
            decompress(codec, stored, limit_bytes=len(expected) - 1)


def test_lz4_believes_neither_header_checksum_of_magic_0_nor_content_checksum_nor_content_size() -> None:
    frame = lz4_header(0x60) + lz4_stored(b"abc") + LZ4_END
    for checksum in range(256):
        assert decompress(Codec.LZ4, frame[:6] + bytes([checksum]) + frame[7:], magic=0) == b"abc"
    assert decompress(Codec.LZ4, lz4_header(0x64) + lz4_stored(b"abc") + LZ4_END + b"\0\0\0\0") == b"abc"
    for declared_bytes in (0, 2, 2**63):
        header = lz4_header(0x68, rest=struct.pack("<Q", declared_bytes))
        assert decompress(Codec.LZ4, header + lz4_stored(b"abc") + LZ4_END) == b"abc"


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        (Codec.GZIP, gzip.compress(sample(300), mtime=0)),
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(sample(300)))),
        (Codec.SNAPPY, kafka.codec.snappy_encode(sample(300))),
        (Codec.LZ4, aiokafka.codec.lz4_encode(sample(300))),
        (Codec.LZ4, lz4.frame.compress(sample(300), block_checksum=True, content_checksum=True)),
        (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(sample(300))),
        (Codec.ZSTD, aiokafka.codec.zstd_encode(sample(300))),
    ],
)
def test_no_cut_stream_and_no_trailing_byte_passes(codec: Codec, stored: bytes) -> None:
    assert decompress(codec, stored) == sample(300)
    for end in range(len(stored)):
        if stored[:end] == XERIAL_HEADER:
            continue  # a whole stream of nothing, in a format without an end mark
        with pytest.raises(DecompressionError):
            decompress(codec, stored[:end])
    for trailing in (b"\0", b"\xff", b"\0" * 4, b"\x1f\x8b", stored[:1], stored[:9], b"\0" * 40):
        with pytest.raises(DecompressionError):
            decompress(codec, stored + trailing)


@pytest.mark.parametrize(
    ("codec", "stored", "reason"),
    [
        (Codec.GZIP, b"", "cut short"),
        (Codec.GZIP, gzip.compress(b"data", mtime=0) + b"tail", "4 bytes follow the gzip stream"),
        (Codec.GZIP, gzip.compress(b"data", mtime=0)[:-8] + bytes(8), "damaged.*checksum"),
        (Codec.SNAPPY, b"", "damaged"),
        (Codec.SNAPPY, XERIAL_HEADER[:12], "cut short within its header"),
        (Codec.SNAPPY, XERIAL_HEADER + b"\0\0", "cut short within a block's length"),
        (Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", 9) + b"\1\0x", "of a block of 9 bytes 3 are there"),
        (Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", -1) + bytes(20), "neither a block nor a whole header"),
        (Codec.SNAPPY, XERIAL_HEADER + XERIAL_HEADER[:15], "neither a block nor a whole header"),
        (Codec.SNAPPY, xerial(b""), "damaged"),
        (Codec.SNAPPY, raw_snappy(2**32 - 1, b"\0x"), "declares 4294967295, more than it can hold"),
        (Codec.SNAPPY, xerial(raw_snappy(150, b"\0x")), "declares 150, more than it can hold"),
        (Codec.LZ4, b"\x05" + lz4_header(0x60)[1:] + LZ4_END, "does not begin with an lz4 frame"),
        (Codec.LZ4, lz4_header(0x60), "has no end mark"),
        (Codec.LZ4, lz4_header(0x60)[:6] + b"\x1a" + LZ4_END, "header does not have the checksum"),
        (Codec.LZ4, lz4_header(0xA0) + LZ4_END, "a0 40, which mean nothing"),
        (Codec.LZ4, lz4_header(0x62) + LZ4_END, "62 40, which mean nothing"),
        (Codec.LZ4, lz4_header(0x60, 0x30) + LZ4_END, "60 30, which mean nothing"),
        (Codec.LZ4, lz4_header(0x60, 0xC1) + LZ4_END, "60 c1, which mean nothing"),
        (Codec.LZ4, lz4_header(0x61, rest=bytes(4)) + LZ4_END, "needs a dictionary"),
        (Codec.LZ4, lz4_header(0x68, rest=bytes(8))[:9], "cut short within its header"),
        (Codec.LZ4, lz4_header(0x60) + struct.pack("<I", 65537) + bytes(65537) + LZ4_END, "damaged"),
        (Codec.LZ4, lz4_header(0x70) + lz4_stored(b"abc") + bytes(4) + LZ4_END, "damaged.*blockChecksum"),
        (Codec.LZ4, lz4_header(0x64) + LZ4_END + bytes(3), "cut short within its content checksum"),
        (Codec.LZ4, lz4_header(0x60) + LZ4_END + b"tail", "4 bytes follow the lz4 frame"),
        (Codec.LZ4, lz4_header(0x60) * 2 + LZ4_END, "has no end mark"),
        (Codec.ZSTD, b"", "not even one frame"),
        (Codec.ZSTD, ZSTD_A + b"tail", "4 bytes that begin no frame"),
        (Codec.ZSTD, ZSTD_A[:-4] + bytes(4), "damaged.*checksum"),
        (Codec.ZSTD, SKIPPABLE[:-1], "cut short within a skippable frame"),
        (Codec.ZSTD, ZSTD_HEADER + zstd_block(3, 2, b"ab", last=True), "block of kind 3"),
        (Codec.ZSTD, ZSTD_HEADER + zstd_block(0, 2, b"ab", last=False), "has no last block"),
        (Codec.ZSTD, ZSTD_HEADER + zstd_block(1, 131_073, b"a", last=True), "says 131073 bytes"),
        (Codec.ZSTD, bytes.fromhex("28b52ffd015807") + zstd_block(0, 1, b"a", last=True), "needs a dictionary"),
        (Codec.ZSTD, bytes.fromhex("28b52ffd00f8") + zstd_block(0, 1, b"a", last=True), "too much memory"),
        (Codec.ZSTD, zstd_header(3) + ZSTD_AB, "declares 3 bytes, its blocks hold 2"),
        (Codec.ZSTD, zstd_header(2**62) + ZSTD_AB, "declares 4611686018427387904 bytes"),
        (Codec.ZSTD, zstd_header(1) + ZSTD_AB, "damaged"),
        (Codec.ZSTD, zstd_header(0) + ZSTD_AB, "damaged"),
    ],
)
def test_damage_is_named(codec: Codec, stored: bytes, reason: str) -> None:
    with pytest.raises(DecompressionError, match=reason):
        decompress(codec, stored)
    assert decompress(codec, compress(codec, b"afterwards")) == b"afterwards"


@pytest.mark.property
@given(st.sampled_from(COMPRESSING), st.integers(0, 400), st.randoms(use_true_random=False))
def test_mutated_streams_end_in_bytes_within_the_limit_or_in_an_error(codec, size_bytes, chance) -> None:
    stored = bytearray(compress(codec, sample(size_bytes)))
    for _ in range(chance.randrange(1, 4)):
        stored[chance.randrange(len(stored))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    with suppress(DecompressionError, DecompressedTooLargeError):
        assert len(decompress(codec, stored, limit_bytes=1000)) <= 1000


def test_threads_do_not_share_what_must_not_be_shared() -> None:
    threads = 4
    together = Barrier(threads)

    def work(thread: int) -> None:
        together.wait()
        for turn in range(8):
            for codec in Codec:
                data = sample(100_000 + 1000 * thread + turn)
                level = 1 + (thread + turn) % 3 if codec is Codec.ZSTD else None
                assert decompress(codec, compress(codec, data, level=level)) == data
                with pytest.raises(CorruptBatchError):
                    decompress(codec, compress(codec, data)[:-1], limit_bytes=len(data) - 2)

    with ThreadPoolExecutor(threads) as pool:
        for outcome in [pool.submit(work, thread) for thread in range(threads)]:
            outcome.result()
