"""Snappy blocks of every shape, sound and damaged, against two libraries that others wrote."""

from __future__ import annotations

import struct
from random import Random

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import DecompressedTooLargeError, DecompressionError
from storage.record.kernel.snappy import decompress_snappy

XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")
LIMIT_BYTES = 1 << 20
LITERAL_BYTES = (1, 2, 15, 16, 17, 59, 60, 61, 100, 256, 257, 300)
DISTANCES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65)


def literal(text: bytes) -> bytes:
    """Return an element of bytes that follow it."""
    number = len(text) - 1
    if number < 60:
        return bytes([number << 2]) + text
    extra = 1 if number < 256 else 2
    return bytes([59 + extra << 2]) + number.to_bytes(extra, "little") + text


def copy(distance: int, length: int, kind: int) -> bytes:
    """Return an element that copies bytes from so far before it."""
    if kind == 1 and 4 <= length <= 11 and distance < 2048:
        return bytes([1 | length - 4 << 2 | distance >> 8 << 5, distance & 0xFF])
    if kind <= 2 and distance < 65536:
        return bytes([2 | length - 1 << 2]) + struct.pack("<H", distance)
    return bytes([3 | length - 1 << 2]) + struct.pack("<I", distance)


def declared(number: int) -> bytes:
    """Return how much a block holds, as it begins with it."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def block_of(random: Random) -> bytes:
    """Return a block of elements in any order; some are damaged."""
    body, size_bytes = b"", 0
    for _ in range(random.randrange(30)):
        if size_bytes == 0 or random.random() < 0.3:
            length = random.choice(LITERAL_BYTES)
            body += literal(random.randbytes(length))
        else:
            length = random.randint(1, 64)
            far = random.randint(1, size_bytes)
            distance = far if random.random() < 0.3 else min(random.choice(DISTANCES), size_bytes)
            body += copy(distance + (random.random() < 0.01), length, random.randint(1, 3))
        size_bytes += length
    damaged = bytearray(declared(max(size_bytes + random.choice((0,) * 9 + (-1, 1)), 0)) + body)
    if random.random() < 0.3:
        damaged[random.randrange(len(damaged))] = random.randrange(256)
    if random.random() < 0.1:
        del damaged[random.randrange(len(damaged)) :]
    return bytes(damaged)


def by_library(block: bytes) -> bytes | None:
    """Return what another library makes of a block."""
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        if size_bytes * 3 > len(block) * 64:
            return None
        return bytes(cramjam.snappy.decompress_raw(block, size_bytes))
    except cramjam.DecompressionError:
        return None


def by_ours(stream: bytes) -> bytes | None:
    try:
        return decompress_snappy(stream, LIMIT_BYTES)
    except DecompressionError:
        return None


def framed(blocks: list[bytes]) -> bytes:
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.property
@given(st.integers(0, 2**64))
def test_blocks_are_read_as_another_library_reads_them(seed: int) -> None:
    blocks = [block_of(Random(seed + number)) for number in range(5)]
    expected = [by_library(block) for block in blocks]
    assert [by_ours(block) for block in blocks] == expected
    sound = [block for block, text in zip(blocks, expected, strict=True) if text is not None]
    assert by_ours(framed(sound)) == b"".join(filter(None, expected))
    if len(sound) < len(blocks):
        assert by_ours(framed(blocks)) is None


@pytest.mark.parametrize("length", [1, 7, 8, 15, 16, 17, 63, 64])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("room", [0, 1, 79, 80, 81])
def test_copies_of_every_distance_and_length(distance: int, length: int, room: int) -> None:
    text = bytes(range(1, 66))
    body = literal(text) + copy(distance, length, 2) + (literal(bytes(room)) if room else b"")
    block = declared(65 + length + room) + body
    repeated = (text[65 - distance :] * 65)[:length]
    assert decompress_snappy(block, LIMIT_BYTES) == text + repeated + bytes(room)


def test_a_short_literal_may_have_a_long_length_as_for_the_library_of_brokers() -> None:
    block = bytes.fromhex("01f4000063")
    assert decompress_snappy(block, LIMIT_BYTES) == pa.decompress(block, 1, codec="snappy").to_pybytes() == b"c"
    assert by_library(block) is None


def test_a_block_does_not_copy_from_the_one_before_it() -> None:
    first = declared(4) + literal(b"text")
    with pytest.raises(DecompressionError, match="copies what is before its beginning"):
        decompress_snappy(framed([first, declared(5) + literal(b"x") + copy(2, 4, 2)]), LIMIT_BYTES)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"", "does not say how much it holds"),
        (b"\x80\x80\x80\x80\x10\0x", "does not say how much it holds"),
        (b"\x80\x80", "does not say how much it holds"),
        (declared(5) + literal(b"text"), "holds less than it declares"),
        (declared(3) + literal(b"text"), "holds more than it declares"),
        (declared(8) + literal(b"text") + copy(4, 5, 2), "holds more than it declares"),
        (declared(4) + literal(b"text")[:-1], "ends within one of its elements"),
        (declared(4) + bytes([61 << 2, 0]), "ends within one of its elements"),
        (declared(8) + literal(b"text") + copy(4, 4, 2)[:-1], "ends within one of its elements"),
        (declared(8) + literal(b"text") + copy(0, 4, 2), "copies what is before its beginning"),
    ],
)
def test_damage_has_its_reason(block: bytes, why: str) -> None:
    with pytest.raises(DecompressionError, match=why):
        decompress_snappy(block, LIMIT_BYTES)


def test_what_blocks_declare_together_is_limited() -> None:
    block = declared(64) + literal(b"x") + copy(1, 63, 2)
    assert len(decompress_snappy(framed([block] * 4), 256)) == 256
    with pytest.raises(DecompressedTooLargeError, match="more than the limit of 255 bytes"):
        decompress_snappy(framed([block] * 4), 255)
