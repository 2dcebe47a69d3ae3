"""Compressed records in the framings that Kafka uses, each by the most obvious calls of its library.

Decompressing accepts exactly what a broker may have stored; it does not bound its output.
"""

from __future__ import annotations

import gzip
import struct
import zlib

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from storage.errors import DecompressionError, FramingError, InvalidRecordError
from storage.testing.checksums import xxhash32

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)

GZIP_WINDOW_BITS = 31

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
SNAPPY_EXPANSION_MAX = 64

LZ4_MAGIC_BYTES = 4
LZ4_CONTENT_SIZE_FLAG = 0x08


def compress(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Return the data compressed as a producer of that magic does."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        return _xerial(data)
    if codec == LZ4:
        return _lz4_frame(data, magic)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(write_content_size=False).compress(data)
    raise InvalidRecordError(f"codec {codec} does not exist")


def decompress(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Decompress the data, or raise DecompressionError unless it is whole and ends where data ends."""
    if codec == NONE:
        return data
    try:
        if codec == GZIP:
            return _from_gzip(data)
        if codec == SNAPPY:
            return _from_snappy(data)
        if codec == LZ4:
            return _from_lz4(data, magic)
        if codec == ZSTD:
            return _from_zstd(data)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, zstandard.ZstdError) as error:
        raise DecompressionError(f"the data does not decompress: {error}") from error
    raise FramingError(f"codec {codec} does not exist")


def _from_gzip(data: bytes) -> bytes:
    parts = []
    while True:
        member = zlib.decompressobj(GZIP_WINDOW_BITS)
        parts.append(member.decompress(data))
        if not member.eof:
            raise DecompressionError("the gzip data is cut short")
        data = member.unused_data
        if not data:
            return b"".join(parts)


def _from_zstd(data: bytes) -> bytes:
    parts = []
    while True:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(data))
        if not frame.eof:
            raise DecompressionError("the zstd data is cut short")
        data = frame.unused_data
        if not data:
            return b"".join(parts)


def _xerial(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(struct.pack(">i", len(block)) + block)
    return b"".join(parts)


def _from_snappy(data: bytes) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _from_snappy_block(data)
    parts = []
    position = 0
    while position < len(data):
        if data.startswith(XERIAL_MAGIC, position):
            # Streams may follow each other, each with its header.
            position += len(XERIAL_HEADER)
            if position > len(data):
                raise DecompressionError("a xerial header is cut short")
            continue
        start = position + 4
        length = int.from_bytes(data[position:start], "big", signed=True)
        position = start + length
        if length < 0 or position > len(data):
            raise DecompressionError(f"a snappy block of {length} bytes does not fit its data")
        parts.append(_from_snappy_block(data[start:position]))
    return b"".join(parts)


def _from_snappy_block(block: bytes) -> bytes:
    # The library allocates the size that a block declares; no block can hold more than this.
    if cramjam.snappy.decompress_raw_len(block) > SNAPPY_EXPANSION_MAX * len(block):
        raise DecompressionError("a snappy block declares more than it can hold")
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4_frame(data: bytes, magic: int) -> bytes:
    frame = bytes(
        lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
    )
    if magic > 0:
        return frame
    # Kafka's first lz4 writer hashed the frame's magic number too, and its readers expect that.
    descriptor_end = _lz4_descriptor_end(frame)
    return frame[:descriptor_end] + _lz4_header_checksum(frame[:descriptor_end]) + frame[descriptor_end + 1 :]


def _from_lz4(frame: bytes, magic: int) -> bytes:
    if magic == 0 and len(frame) > LZ4_MAGIC_BYTES:
        # The header checksum is ignored: the library gets the one it expects.
        end = _lz4_descriptor_end(frame)
        frame = frame[:end] + _lz4_header_checksum(frame[LZ4_MAGIC_BYTES:end]) + frame[end + 1 :]
    # Not the one-shot call: it allocates the size that a frame declares.
    decompressor = lz4.frame.LZ4FrameDecompressor()
    data = bytes(decompressor.decompress(frame))
    if not decompressor.eof:
        raise DecompressionError("the lz4 frame is cut short")
    if decompressor.unused_data:
        raise DecompressionError("the lz4 frame is followed by bytes that do not belong to it")
    return data


def _lz4_descriptor_end(frame: bytes) -> int:
    return LZ4_MAGIC_BYTES + (10 if frame[LZ4_MAGIC_BYTES] & LZ4_CONTENT_SIZE_FLAG else 2)


def _lz4_header_checksum(hashed: bytes) -> bytes:
    return bytes([xxhash32(hashed) >> 8 & 0xFF])
