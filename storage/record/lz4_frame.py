"""LZ4 frames as Kafka reads and writes them, over the library that decodes the blocks.

Like Kafka's own reader, this one believes neither a content size nor a content checksum: both are cut out before
the library sees the frame. The frame's structure, its header checksum and its block checksums are verified. In
message sets of magic 0 the header checksum also covers the frame's magic number, which is how Kafka's first
writer had it; readers do not look at it there. A frame ends at its first block without bytes, as it does for Kafka;
the library reads on if that block is said to be stored.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import lz4.frame  # type: ignore[import-untyped]

from storage.errors import DecompressedTooLargeError, DecompressionError
from storage.record.kernel.frames import join_parts, lz4_blocks_end

_MAGIC: Final = b"\x04\x22\x4d\x18"
_SHORTEST_HEADER_BYTES: Final = 7  # magic, flags, block descriptor, header checksum
_LONGEST_HEADER_BYTES: Final = 15  # with a content size

_VERSION_MASK: Final = 0xC0
_VERSION: Final = 0x40
_INDEPENDENCE_FLAG: Final = 0x20
_BLOCK_CHECKSUM_FLAG: Final = 0x10
_CONTENT_SIZE_FLAG: Final = 0x08
_CONTENT_CHECKSUM_FLAG: Final = 0x04
_RESERVED_FLAG: Final = 0x02
_DICTIONARY_FLAG: Final = 0x01
_DESCRIPTOR_RESERVED_BITS: Final = 0x8F
_BLOCK_BYTES: Final = 64 << 10  # of the frames that Kafka writes
_BLOCK_BYTES_MAX: Final = {4: _BLOCK_BYTES, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}

_LENGTH_BYTES: Final = 4
_END_MARK: Final = bytes(_LENGTH_BYTES)
_CHECKSUM_BYTES: Final = 4
_WORD: Final = Struct("<I")
_USUAL_EXPANSION: Final = 4
_STEP_BYTES_MAX: Final = 4 << 20

DEFAULT_LEVEL: Final = 9  # in Kafka not a level of the high compressor but the fast one
_LOWEST_HIGH_LEVEL: Final = lz4.frame.COMPRESSIONLEVEL_MINHC
_HIGHEST_HIGH_LEVEL: Final = 12

_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_MASK: Final = 0xFFFFFFFF


class _Thread(threading.local):
    """Each thread's own context: ready for a frame whenever no call is using it."""

    def __init__(self) -> None:
        self.context = lz4.frame.create_decompression_context()


_thread: Final = _Thread()


class _Header(NamedTuple):
    block_bytes_max: int
    block_checksum_bytes: int
    content_checksum_bytes: int
    plain: bytes | None  # what to give the library in the header's place, None for the header itself


def compress(data: memoryview, level: int, *, magic: int) -> bytes:
    """Return a frame of independent 64 KiB blocks without checksums, the only kind that all of Kafka reads.

    Level 9 is the fast compressor and all others are levels of the high compressor, whose lowest is 3 and
    whose highest is 12: levels beyond these come out as these.
    """
    library_level = 0 if level == DEFAULT_LEVEL else min(max(level, _LOWEST_HIGH_LEVEL), _HIGHEST_HIGH_LEVEL)
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=library_level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    checksum_at = _SHORTEST_HEADER_BYTES - 1
    checksum = _header_checksum(frame[:checksum_at])
    return b"".join((frame[:checksum_at], checksum, frame[_SHORTEST_HEADER_BYTES:]))


def decompress(data: memoryview, limit_bytes: int, *, magic: int = 2) -> bytes:
    """Return what the one frame holds, or raise `DecompressionError` unless it is whole and ends where data ends."""
    head = bytes(data[:_SHORTEST_HEADER_BYTES])
    if len(head) == _SHORTEST_HEADER_BYTES and head[4] & _CONTENT_SIZE_FLAG:
        head = bytes(data[:_LONGEST_HEADER_BYTES])
    header = _parse_header(head, magic > 0)
    end = lz4_blocks_end(data, len(head), header.block_checksum_bytes)
    left_bytes = len(data) - end - header.content_checksum_bytes
    if left_bytes < 0:
        raise DecompressionError("the lz4 frame is cut short within its content checksum")
    if left_bytes > 0:
        raise DecompressionError(f"{left_bytes} bytes follow the lz4 frame")
    frame = data
    if header.plain is not None or data[end - 1]:  # the last byte of the end mark has the bit of a stored block
        beginning = head if header.plain is None else header.plain
        frame = memoryview(b"".join((beginning, data[len(head) : end - _LENGTH_BYTES], _END_MARK)))
    return join_parts(_decode(frame, header.block_bytes_max, limit_bytes))


def has_linked_blocks(data: memoryview) -> bool:
    """Return True if the blocks of the frame refer to those before them, which is read here and refused by Kafka."""
    flags = bytes(data[len(_MAGIC) : len(_MAGIC) + 1])
    return bool(flags) and not flags[0] & _INDEPENDENCE_FLAG


def _decode(frame: memoryview, block_bytes_max: int, limit_bytes: int) -> list[bytes]:
    """Return the contents of the blocks, in parts."""
    # A context keeps buffers of the block size: the thread's own is only for the smallest, which Kafka writes.
    kept = block_bytes_max == _BLOCK_BYTES
    context = _thread.context if kept else lz4.frame.create_decompression_context()
    # Most frames come out in the first step. Steps are bounded because the library copies what each produces.
    step_bytes = block_bytes_max
    if len(frame) * _USUAL_EXPANSION > step_bytes:
        step_bytes = min(len(frame) * _USUAL_EXPANSION, _STEP_BYTES_MAX)
    room_bytes = limit_bytes
    parts = []
    ended = False
    try:
        while True:
            if step_bytes > room_bytes:
                step_bytes = room_bytes + 1
            part, read_bytes, ended = lz4.frame.decompress_chunk(context, frame, max_length=step_bytes)
            room_bytes -= len(part)
            if room_bytes < 0:
                raise DecompressedTooLargeError(f"the lz4 frame holds more than the limit of {limit_bytes} bytes")
            parts.append(part)
            if ended:
                return parts
            if not (part or read_bytes):
                raise DecompressionError("the lz4 frame is damaged: its blocks do not end where they should")
            frame = frame[read_bytes:]
            step_bytes = _STEP_BYTES_MAX
    except RuntimeError as error:
        raise DecompressionError(f"the lz4 frame is damaged: {error}") from error
    finally:
        if kept and not ended:
            lz4.frame.reset_decompression_context(context)


@lru_cache(maxsize=64)
def _parse_header(head: bytes, verify: bool) -> _Header:
    """Return what a header says, or a part of one where the data is no longer."""
    if len(head) < _SHORTEST_HEADER_BYTES:
        raise DecompressionError("the lz4 frame is cut short within its header")
    if not head.startswith(_MAGIC):
        raise DecompressionError("the data does not begin with an lz4 frame")
    flags, descriptor = head[4], head[5]
    block_bytes_max = _BLOCK_BYTES_MAX.get(descriptor >> 4)
    if (
        flags & _VERSION_MASK != _VERSION
        or flags & _RESERVED_FLAG
        or descriptor & _DESCRIPTOR_RESERVED_BITS
        or block_bytes_max is None
    ):
        raise DecompressionError(f"the lz4 frame's header has {flags:02x} {descriptor:02x}, which mean nothing")
    if flags & _DICTIONARY_FLAG:
        raise DecompressionError("the lz4 frame needs a dictionary")
    if flags & _CONTENT_SIZE_FLAG and len(head) < _LONGEST_HEADER_BYTES:
        raise DecompressionError("the lz4 frame is cut short within its header")
    if verify and head[-1:] != _header_checksum(head[len(_MAGIC) : -1]):
        raise DecompressionError("the lz4 frame's header does not have the checksum that it carries")
    plain_descriptor = bytes([flags & ~(_CONTENT_SIZE_FLAG | _CONTENT_CHECKSUM_FLAG), descriptor])
    plain = _MAGIC + plain_descriptor + _header_checksum(plain_descriptor)
    return _Header(
        block_bytes_max,
        _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUM_FLAG else 0,
        _CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM_FLAG else 0,
        None if plain == head else plain,
    )


def _header_checksum(hashed: bytes) -> bytes:
    return bytes([_xxhash32_of_few(hashed) >> 8 & 0xFF])


def _xxhash32_of_few(hashed: bytes) -> int:
    """XXH32 with seed 0 of at most 15 bytes, fewer than its main loop begins with."""
    value = _PRIME_5 + len(hashed)
    words_end = len(hashed) & ~3
    for (word,) in _WORD.iter_unpack(hashed[:words_end]):
        value = _rotated(value + word * _PRIME_3, 17) * _PRIME_4 & _MASK
    for byte in hashed[words_end:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
