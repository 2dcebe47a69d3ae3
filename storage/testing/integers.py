"""Java's integers: two's complement that wraps around, and zigzag varints as the JVM reads and writes them.

Reading refuses what the JVM refuses and accepts what it accepts, overlong encodings included.
"""

from __future__ import annotations

from storage.errors import MalformedRecordsError

VARINT32_BYTES_MAX = 5
VARINT64_BYTES_MAX = 10


def wrap32(value: int) -> int:
    """Return what is left of the value in a Java int."""
    return (value + 2**31) % 2**32 - 2**31


def wrap64(value: int) -> int:
    """Return what is left of the value in a Java long."""
    return (value + 2**63) % 2**64 - 2**63


def read_varint32(data: bytes, position: int) -> tuple[int, int]:
    """Return the 32-bit value at the position, and the position after it."""
    unsigned, position = _read_unsigned(data, position, VARINT32_BYTES_MAX)
    return _unzigzag(unsigned % 2**32), position


def read_varint64(data: bytes, position: int) -> tuple[int, int]:
    """Return the 64-bit value at the position, and the position after it."""
    unsigned, position = _read_unsigned(data, position, VARINT64_BYTES_MAX)
    return _unzigzag(unsigned % 2**64), position


def write_varint(value: int) -> bytes:
    """Return the shortest encoding; what fits 32 bits is encoded alike as a varint32 and as a varint64."""
    unsigned = value * 2 if value >= 0 else -value * 2 - 1
    encoded = bytearray()
    while unsigned >= 0x80:
        encoded.append(unsigned % 0x80 + 0x80)
        unsigned //= 0x80
    encoded.append(unsigned)
    return bytes(encoded)


def _unzigzag(unsigned: int) -> int:
    return unsigned // 2 if unsigned % 2 == 0 else -(unsigned + 1) // 2


def _read_unsigned(data: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    value = 0
    for index in range(bytes_max):
        if position + index >= len(data):
            raise MalformedRecordsError("a varint runs past the end of its record")
        byte = data[position + index]
        value += byte % 0x80 << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise MalformedRecordsError(f"a varint goes on after {bytes_max} bytes")
