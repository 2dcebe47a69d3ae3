"""Compressed records in the framings that Kafka uses, each by the most obvious calls of its library.

Decompressing accepts exactly what a broker may have stored; it does not bound its output.
"""

from __future__ import annotations

import gzip
import struct
import zlib

import cramjam
import lz4.block  # type: ignore[import-untyped]
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

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_VERSION = 1
LZ4_BLOCK_BYTES_MAX = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
LZ4_STORED = 1 << 31  # in a block's length
LZ4_WINDOW_BYTES = 1 << 16


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
    except (zlib.error, cramjam.DecompressionError, lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
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
    return frame[:6] + _lz4_header_checksum(frame[:6]) + frame[7:]


def _from_lz4(data: bytes, magic: int) -> bytes:
    """Return what the one frame holds. As Kafka's reader, this one passes over the size and checksum of its content."""
    if data[:4] != LZ4_MAGIC or len(data) < 6:
        raise DecompressionError("the data does not begin with an lz4 frame")
    flags, descriptor = data[4:6]
    version, independent, with_checksums, with_size, with_content_checksum, reserved = (
        flags >> 6, flags & 0x20, flags & 0x10, flags & 0x08, flags & 0x04, flags & 0x03,
    )  # fmt: skip
    block_bytes_max = LZ4_BLOCK_BYTES_MAX.get(descriptor >> 4)
    # The lower of the reserved bits says by now that a dictionary is needed, which Kafka does not have either.
    if version != LZ4_VERSION or reserved or descriptor & 0x0F or block_bytes_max is None:
        raise DecompressionError("the lz4 frame is of a kind that Kafka does not read")
    position = 6 + (8 if with_size else 0)
    if magic > 0 and data[position : position + 1] != _lz4_header_checksum(data[4:position]):
        raise DecompressionError("the lz4 frame's header does not have its checksum")
    position += 1
    content = bytearray()
    while length := _lz4_length(data, position):
        start, end = position + 4, position + 4 + length % LZ4_STORED
        block = data[start:end]
        if length % LZ4_STORED > block_bytes_max:
            raise DecompressionError("a block of the lz4 frame is larger than the frame allows")
        position = end + (4 if with_checksums else 0)
        if position > len(data):
            raise DecompressionError("the lz4 frame is cut short within a block")
        if with_checksums and xxhash32(block).to_bytes(4, "little") != data[end:position]:
            raise DecompressionError("a block of the lz4 frame does not have its checksum")
        if length < LZ4_STORED:
            window = b"" if independent else bytes(content[-LZ4_WINDOW_BYTES:])
            block = lz4.block.decompress(block, uncompressed_size=block_bytes_max, dict=window)
        content += block
    position += 4 + (4 if with_content_checksum else 0)
    if position != len(data):
        raise DecompressionError("the lz4 frame does not end where its data ends")
    return bytes(content)


def _lz4_length(data: bytes, position: int) -> int:
    """Return the length of a block, with the bit of a stored one, or 0 for the end: also where that bit is with it."""
    if position + 4 > len(data):
        raise DecompressionError("the lz4 frame is cut short: it has no end")
    length = int.from_bytes(data[position : position + 4], "little")
    return length if length % LZ4_STORED else 0


def _lz4_header_checksum(hashed: bytes) -> bytes:
    return bytes([xxhash32(hashed) >> 8 & 0xFF])
