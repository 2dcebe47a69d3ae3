"""The two checksums that Python does not bring along: CRC-32C of v2 batches, and xxHash32 of lz4 frames."""

from __future__ import annotations

CASTAGNOLI_REFLECTED = 0x82F63B78

XXHASH32_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
XXHASH32_STRIPE_BYTES = 16


def _crc32c_of_byte(byte: int) -> int:
    remainder = byte
    for _ in range(8):
        remainder = remainder >> 1 ^ CASTAGNOLI_REFLECTED if remainder & 1 else remainder >> 1
    return remainder


CRC32C_TABLE = tuple(_crc32c_of_byte(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of the data."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = CRC32C_TABLE[(remainder ^ byte) & 0xFF] ^ remainder >> 8
    return remainder ^ 0xFFFFFFFF


def xxhash32(data: bytes) -> int:
    """Return the xxHash32 of the data, seed 0."""
    prime1, prime2, prime3, prime4, prime5 = XXHASH32_PRIMES
    stripes_end = len(data) // XXHASH32_STRIPE_BYTES * XXHASH32_STRIPE_BYTES
    value = _xxhash32_of_stripes(data[:stripes_end]) if stripes_end else prime5
    value = (value + len(data)) % 2**32
    words_end = len(data) // 4 * 4
    for position in range(stripes_end, words_end, 4):
        value = _rotated_left(value + _word(data, position) * prime3, 17) * prime4 % 2**32
    for byte in data[words_end:]:
        value = _rotated_left(value + byte * prime5, 11) * prime1 % 2**32
    value = (value ^ value >> 15) * prime2 % 2**32
    value = (value ^ value >> 13) * prime3 % 2**32
    return value ^ value >> 16


def _xxhash32_of_stripes(data: bytes) -> int:
    prime1, prime2, *_ = XXHASH32_PRIMES
    lanes = [prime1 + prime2, prime2, 0, -prime1]
    for position in range(0, len(data), 4):
        lane = position // 4 % len(lanes)
        lanes[lane] = _rotated_left(lanes[lane] + _word(data, position) * prime2, 13) * prime1 % 2**32
    return sum(_rotated_left(value, bits) for value, bits in zip(lanes, (1, 7, 12, 18), strict=True))


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _rotated_left(value: int, bits: int) -> int:
    value %= 2**32
    return (value << bits | value >> 32 - bits) % 2**32
