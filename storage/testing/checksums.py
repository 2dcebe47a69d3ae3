"""The two checksums that Python does not bring along: CRC-32C of v2 batches, and xxHash32 of lz4 frame headers."""

from __future__ import annotations

CASTAGNOLI_REFLECTED = 0x82F63B78

XXHASH32_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
XXHASH32_SHORT_BYTES_MAX = 15


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
    """Return the xxHash32, seed 0, of at most 15 bytes: every lz4 frame header is that short."""
    assert len(data) <= XXHASH32_SHORT_BYTES_MAX
    prime1, prime2, prime3, prime4, prime5 = XXHASH32_PRIMES
    value = (prime5 + len(data)) % 2**32
    words_end = len(data) // 4 * 4
    for position in range(0, words_end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        value = _rotated_left(value + word * prime3, 17) * prime4 % 2**32
    for byte in data[words_end:]:
        value = _rotated_left(value + byte * prime5, 11) * prime1 % 2**32
    value = (value ^ value >> 15) * prime2 % 2**32
    value = (value ^ value >> 13) * prime3 % 2**32
    return value ^ value >> 16


def _rotated_left(value: int, bits: int) -> int:
    value %= 2**32
    return (value << bits | value >> 32 - bits) % 2**32
