"""LZ4 frames of every make, those that Kafka refuses among them, put together from their parts.

    frame([b"one", b"two"], flags=INDEPENDENT | BLOCK_CHECKSUMS)

`FRAMES` are functions by their names, each of which puts a section of records into a frame.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import lz4.block  # type: ignore[import-untyped]
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAGIC: Final = bytes.fromhex("04224d18")
LEGACY_MAGIC: Final = bytes.fromhex("02214c18")
SKIPPABLE: Final = bytes.fromhex("502a4d18") + struct.pack("<I", 3) + b"abc"

VERSION: Final = 0x40
INDEPENDENT: Final = VERSION | 0x20
BLOCK_CHECKSUMS: Final = 0x10
CONTENT_SIZE: Final = 0x08
CONTENT_CHECKSUM: Final = 0x04
RESERVED: Final = 0x02
DICTIONARY: Final = 0x01
OF_64_KIB: Final = 0x40
"""The descriptor of blocks of up to 64 KiB."""
OF_4_MIB: Final = 0x70

END: Final = bytes(4)
STORED_END: Final = struct.pack("<I", 1 << 31)
"""A block without bytes that is said to be stored: the end of the frame to Kafka, and nothing to the lz4 library."""
_STORED: Final = 1 << 31
_WINDOW_BYTES: Final = 64 * 1024


def header(flags: int = INDEPENDENT, descriptor: int = OF_64_KIB, fields: bytes = b"") -> bytes:
    """Return the beginning of a frame, with the right checksum."""
    described = bytes([flags, descriptor]) + fields
    return MAGIC + described + bytes([xxhash.xxh32_intdigest(described) >> 8 & 0xFF])


def stored_block(data: bytes, *, checksum: bool = False) -> bytes:
    """Return a block of the data as it is."""
    return struct.pack("<I", len(data) | _STORED) + data + (word_of(data) if checksum else b"")


def packed_block(data: bytes, *, checksum: bool = False, window: bytes = b"") -> bytes:
    """Return a compressed block, which may refer to a window before it."""
    packed = lz4.block.compress(data, store_size=False, dict=window[-_WINDOW_BYTES:]) if window else _packed(data)
    return struct.pack("<I", len(packed)) + packed + (word_of(packed) if checksum else b"")


def word_of(data: bytes) -> bytes:
    """Return the checksum of the data as a frame stores it."""
    return struct.pack("<I", xxhash.xxh32_intdigest(data))


def frame(
    pieces: Sequence[bytes],
    *,
    flags: int = INDEPENDENT,
    descriptor: int = OF_64_KIB,
    fields: bytes = b"",
    end: bytes = END,
) -> bytes:
    """Return a frame with a compressed block of each piece; what the flags call for in the header are `fields`."""
    parts = [header(flags, descriptor, fields)]
    done = b""
    for piece in pieces:
        is_linked = not flags & INDEPENDENT & ~VERSION
        parts.append(packed_block(piece, checksum=bool(flags & BLOCK_CHECKSUMS), window=done if is_linked else b""))
        done += piece
    return b"".join((*parts, end))


def halves(data: bytes) -> tuple[bytes, bytes]:
    """Return the data in two pieces."""
    return data[: len(data) // 2], data[len(data) // 2 :]


def sized(data: bytes, size_bytes: int) -> bytes:
    """Return a frame that declares this size of its content."""
    return frame(halves(data), flags=INDEPENDENT | CONTENT_SIZE, fields=struct.pack("<Q", size_bytes))


def summed(data: bytes, checksum: bytes) -> bytes:
    """Return a frame with this checksum of its content."""
    return frame(halves(data), flags=INDEPENDENT | CONTENT_CHECKSUM, end=END + checksum)


def _packed(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return packed


def _with(data: bytes, between: bytes) -> bytes:
    first, second = halves(data)
    return header() + packed_block(first) + between + packed_block(second) + END


def _wrong_block_checksum(data: bytes) -> bytes:
    whole = frame([data], flags=INDEPENDENT | BLOCK_CHECKSUMS)
    return whole[:-8] + bytes(byte ^ 1 for byte in whole[-8:-4]) + END


def _wrong_header_checksum(data: bytes) -> bytes:
    whole = frame([data])
    return whole[:6] + bytes([whole[6] ^ 1]) + whole[7:]


def _xor_of_blocks(data: bytes) -> bytes:
    first, second = (xxhash.xxh32_intdigest(half) for half in halves(data))
    return struct.pack("<I", first ^ second)


FRAMES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "compressed blocks": lambda data: frame(halves(data)),
    "stored blocks": lambda data: header() + b"".join(map(stored_block, halves(data))) + END,
    "a compressed and a stored block": lambda data: (
        header() + packed_block(halves(data)[0]) + stored_block(halves(data)[1]) + END
    ),
    "blocks of a byte": lambda data: frame([bytes([byte]) for byte in data]),
    "block checksums": lambda data: frame(halves(data), flags=INDEPENDENT | BLOCK_CHECKSUMS),
    "a wrong block checksum": _wrong_block_checksum,
    "linked blocks": lambda data: frame(halves(data), flags=VERSION),
    "one linked block": lambda data: frame([data], flags=VERSION),
    "the content's size": lambda data: sized(data, len(data)),
    "a wrong size of the content": lambda data: sized(data, len(data) + 1),
    "a size that is cut short": lambda _: header(INDEPENDENT | CONTENT_SIZE, fields=bytes(8))[:11],
    "the content's checksum": lambda data: summed(data, word_of(data)),
    "the content's checksum in one block": lambda data: frame(
        [data], flags=INDEPENDENT | CONTENT_CHECKSUM, end=END + word_of(data)
    ),
    "a wrong checksum of the content": lambda data: summed(data, bytes(4)),
    "the checksums of the blocks as that of the content": lambda data: summed(data, _xor_of_blocks(data)),
    "a checksum of the content that is cut short": lambda data: summed(data, bytes(3)),
    "no checksum of the content": lambda data: summed(data, b""),
    "the number of a dictionary": lambda data: frame(halves(data), flags=INDEPENDENT | DICTIONARY, fields=bytes(4)),
    "a dictionary without a number": lambda data: frame(halves(data), flags=INDEPENDENT | DICTIONARY),
    "a reserved flag": lambda data: frame(halves(data), flags=INDEPENDENT | RESERVED),
    "version 0": lambda data: frame(halves(data), flags=INDEPENDENT & ~VERSION),
    "version 2": lambda data: frame(halves(data), flags=INDEPENDENT & ~VERSION | 0x80),
    "version 3": lambda data: frame(halves(data), flags=INDEPENDENT | 0x80),
    **{
        f"blocks of size {number}": lambda data, number=number: frame(halves(data), descriptor=number << 4)
        for number in range(8)
    },
    "a reserved low bit of the descriptor": lambda data: frame(halves(data), descriptor=OF_64_KIB | 1),
    "the reserved high bit of the descriptor": lambda data: frame(halves(data), descriptor=OF_64_KIB | 0x80),
    "a wrong header checksum": _wrong_header_checksum,
    "a header that is cut short": lambda _: header()[:6],
    "nothing": lambda _: b"",
    "a stored end": lambda data: frame(halves(data), end=STORED_END),
    "a stored end between blocks": lambda data: _with(data, STORED_END),
    "an end between blocks": lambda data: _with(data, END),
    "no end": lambda data: frame(halves(data), end=b""),
    "half an end": lambda data: frame(halves(data), end=bytes(2)),
    "an empty compressed block": lambda data: _with(data, packed_block(b"")),
    "an empty compressed block at the beginning": lambda data: header() + packed_block(b"") + packed_block(data) + END,
    "an empty compressed block at the end": lambda data: header() + packed_block(data) + packed_block(b"") + END,
    "a block that expands to more than it may": lambda data: frame([data, bytes(64 * 1024 + 1)]),
    "a stored block that is larger than it may be": lambda data: (
        header() + packed_block(data) + stored_block(bytes(64 * 1024 + 1)) + END
    ),
    "a block that refers to what is before it": lambda data: (
        header() + packed_block(data) + packed_block(data, window=data) + END
    ),
    "a block that is cut short": lambda data: frame(halves(data))[:-8],
    "bytes after it": lambda data: frame(halves(data)) + b"after",
    "a skippable frame before it": lambda data: SKIPPABLE + frame(halves(data)),
    "a skippable frame after it": lambda data: frame(halves(data)) + SKIPPABLE,
    "an empty frame before it": lambda data: frame([]) + frame(halves(data)),
    "an empty frame after it": lambda data: frame(halves(data)) + frame([]),
    "two frames": lambda data: b"".join(frame([half]) for half in halves(data)),
    "a legacy frame": lambda data: LEGACY_MAGIC + packed_block(data),
    "no frame": lambda data: data,
}
"""Frames of every make by their names: functions of what they hold."""

READ_HERE_ALONE: Final = frozenset(
    {
        "linked blocks",
        "one linked block",
        "an empty compressed block",
        "an empty compressed block at the beginning",
    }
)
"""What Kafka refuses, so that no broker stores it, and what is read here all the same."""
READ_BY_KAFKA_ALONE: Final = frozenset({"bytes after it", "a skippable frame after it", "an empty frame after it"})
"""Kafka passes over what follows a frame; here that is an error, with every codec."""
READ: Final = frozenset(
    {
        "compressed blocks",
        "stored blocks",
        "a compressed and a stored block",
        "blocks of a byte",
        "block checksums",
        "the content's size",
        "a wrong size of the content",
        "the content's checksum",
        "the content's checksum in one block",
        "a wrong checksum of the content",
        "the checksums of the blocks as that of the content",
        "blocks of size 4",
        "blocks of size 5",
        "blocks of size 6",
        "blocks of size 7",
        "a stored end",
        "an empty compressed block at the end",
    }
)
"""What both read; all others are refused by both."""
READ_IN_MAGIC_0: Final = "a wrong header checksum"
