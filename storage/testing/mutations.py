"""Damage, dealt at random but repeatably: what the same seeded generator does to the same bytes never changes.

Hypothesis is not needed here, so that a fuzzer can run millions of rounds; `strategies.mutated` is for properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

EDITS_MAX = 3
SPLICE_BYTES_MAX = 64

HEADER_LENGTHS_AT = (8, 18, 23, 26, 57)
"""The positions of length, v0 key size, last offset delta, v1 key size and record count in a batch at 0."""

LENGTHS = tuple(length.to_bytes(4, "big", signed=True) for length in (-1, 0, 1, 2**31 - 1, -(2**31)))
VARINT_LENGTHS = (b"\x01", b"\x00", b"\x02", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff")
"""The varints -1, 0, 1, 2^31-1 and -2^31, and one that does not end."""


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return the data with one to three of: flipped bits, a cut, a length overwritten, a splice, a tail of zeros."""
    damaged = bytearray(data)
    for _ in range(rng.randrange(EDITS_MAX) + 1):
        if damaged:
            rng.choice(_EDITS)(rng, damaged)
    return bytes(damaged)


def _flip_bit(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _overwrite_header_length(rng: random.Random, data: bytearray) -> None:
    position = rng.choice(HEADER_LENGTHS_AT)
    _overwrite(data, position, rng.choice(LENGTHS))


def _overwrite_length(rng: random.Random, data: bytearray) -> None:
    _overwrite(data, rng.randrange(len(data)), rng.choice(LENGTHS))


def _overwrite_varint(rng: random.Random, data: bytearray) -> None:
    position = rng.randrange(len(data))
    varint = rng.choice(VARINT_LENGTHS)
    if rng.randrange(2):
        _overwrite(data, position, varint)
    else:
        data[position : position + 1] = varint


def _overwrite(data: bytearray, position: int, new: bytes) -> None:
    if position + len(new) <= len(data):
        data[position : position + len(new)] = new


def _splice(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randrange(SPLICE_BYTES_MAX)]
    position = rng.randrange(len(data) + 1)
    data[position : position + rng.randrange(len(piece) + 1)] = piece


def _zero_tail(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:] = bytes(len(data) - start + rng.randrange(SPLICE_BYTES_MAX))


_EDITS = (
    _flip_bit,
    _flip_bit,
    _truncate,
    _overwrite_header_length,
    _overwrite_length,
    _overwrite_varint,
    _splice,
    _zero_tail,
)
