"""Records that lie about themselves: their lengths, counts and numbers are not what they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.testing.codec import write_varint
from storage.testing.mutations import VARINT_LENGTHS

if TYPE_CHECKING:
    from random import Random

VARINT32_BYTES_MAX = 5


def lying_record(rng: Random) -> bytes:
    """Return one encoded record, which may also be honest."""
    headers = [_field(rng, data) for _ in range(rng.randrange(3)) for data in (b"h" * rng.randrange(3), b"value")]
    body = b"".join(
        (
            bytes([rng.choice((0, 0, 0, 0xFF))]),
            _varint(rng, rng.randrange(-5, 1000)),
            _varint(rng, rng.randrange(-2, 20)),
            _field(rng, b"key"),
            _field(rng, bytes(rng.randrange(40))),
            _varint(rng, len(headers) // 2),
            *headers,
        )
    )
    return _varint(rng, len(body)) + body


def _field(rng: Random, data: bytes) -> bytes:
    return write_varint(-1 - rng.randrange(2)) if rng.random() < 0.1 else _varint(rng, len(data)) + data


def _varint(rng: Random, value: int) -> bytes:
    """The value most of the time; or it encoded longer than need be, one that is nearly it, or an impossible one."""
    chance = rng.random()
    if chance < 0.95:
        return write_varint(value)
    if chance < 0.965:
        return write_varint(value + rng.choice((-1, 1)))
    if chance < 0.975:
        return rng.choice(VARINT_LENGTHS)
    encoded = bytearray(write_varint(value))
    encoded[-1] |= 0x80
    encoded += b"\x80" * rng.randrange(VARINT32_BYTES_MAX)
    return bytes(encoded) + bytes([rng.choice((0, 0, 0, 1, 0x70))])
