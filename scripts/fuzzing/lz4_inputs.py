"""LZ4 frames of every make: their blocks stored, compressed, linked or damaged, their descriptors anything."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lz4_frames as made

from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from random import Random

BLOCKS_MAX = 5
ODD_SHARE = 0.25
"""How many frames have something about them that no writer does; all others can be read."""


def any_frame(rng: Random, data: bytes) -> bytes:
    """Return the data in one frame, or in what a writer without sense made of one."""
    if rng.random() < ODD_SHARE / 2:
        return rng.choice(tuple(made.FRAMES.values()))(data)
    is_odd = rng.random() < ODD_SHARE
    flags, descriptor = _descriptor(rng, is_odd=is_odd)
    fields = b""
    if flags & made.CONTENT_SIZE:
        fields += struct.pack("<Q", rng.choice((len(data), len(data), 0, 2**64 - 1)))
    if flags & made.DICTIONARY and rng.random() < 0.5:
        fields += rng.randbytes(4)
    parts = [made.header(flags, descriptor, fields), *_blocks(rng, data, flags, is_odd=is_odd)]
    parts.append(made.END if rng.random() < 0.9 else made.STORED_END)
    if flags & made.CONTENT_CHECKSUM:
        parts.append(made.word_of(data) if rng.random() < 0.8 else rng.randbytes(4))
    if is_odd and rng.random() < 0.2:
        parts.append(rng.choice((made.SKIPPABLE, made.frame([]), b"\0", made.END)))
    return b"".join(parts)


def _descriptor(rng: Random, *, is_odd: bool) -> tuple[int, int]:
    flags, descriptor = made.INDEPENDENT, rng.choice((4, 4, 5, 6, 7)) << 4
    for flag, share in (
        (made.INDEPENDENT ^ made.VERSION, 0.2),
        (made.BLOCK_CHECKSUMS, 0.4),
        (made.CONTENT_SIZE, 0.3),
        (made.CONTENT_CHECKSUM, 0.3),
    ):
        flags ^= flag if rng.random() < share else 0
    if is_odd and rng.random() < 0.4:
        flags ^= rng.choice((made.DICTIONARY, made.RESERVED, made.VERSION, 0x80))
    if is_odd and rng.random() < 0.2:
        descriptor = rng.randrange(256)
    return flags, descriptor


def _blocks(rng: Random, data: bytes, flags: int, *, is_odd: bool) -> list[bytes]:
    checksum = bool(flags & made.BLOCK_CHECKSUMS)
    is_linked = not flags & (made.INDEPENDENT ^ made.VERSION)
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(BLOCKS_MAX)))
    blocks = []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        window = data[:start] if is_linked else b""
        if rng.random() < 0.25 and end > start:
            block = made.stored_block(data[start:end], checksum=checksum)
        else:
            block = made.packed_block(data[start:end], checksum=checksum, window=window)
        if is_odd and rng.random() < 0.2:
            block = _damaged(rng, block, checksum=checksum)
        blocks.append(block)
    return blocks


def _damaged(rng: Random, block: bytes, *, checksum: bool) -> bytes:
    """Damage a block as a whole, or its contents with a right length and checksum."""
    if rng.random() < 0.3:
        return mutate(rng, block)
    stored = mutate(rng, block[4 : -4 if checksum else None])
    length = len(stored) | struct.unpack("<I", block[:4])[0] & 1 << 31
    return struct.pack("<I", length) + stored + (made.word_of(stored) if checksum else b"")
