# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Where the blocks of lz4 and zstd frames end, and the output of a stream from its parts.

The lengths of the blocks are read, and not what is in them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from storage.errors import DecompressionError
from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef enum:
    LZ4_LENGTH_BYTES = 4
    LZ4_LENGTH_MASK = 0x7FFFFFFF  # the bit above says that the block is stored
    ZSTD_HEADER_BYTES = 3  # last-block bit, kind, length in the upper 21 bits
    ZSTD_REPEATED = 1
    ZSTD_COMPRESSED = 2
    ZSTD_RESERVED = 3  # and 0, stored
    LARGE_PART_BYTES = 64 * 1024  # from which on copying a part is worth giving Python's lock away


cdef inline int64_t little(const uint8_t* at, int size) noexcept nogil:
    cdef int64_t number = 0
    cdef int index
    for index in range(size):
        number |= <int64_t>at[index] << 8 * index
    return number


def lz4_blocks_end(data, Py_ssize_t position, int checksum_bytes):
    """Return the position after the end mark, which is the length of the first block without bytes.

    The first block is at `position`, and so many bytes of checksum follow each block.
    """
    cdef PinnedBuffer buffer = PinnedBuffer(data)
    cdef int64_t length
    while position <= buffer.size - LZ4_LENGTH_BYTES:
        length = little(buffer.data + position, LZ4_LENGTH_BYTES) & LZ4_LENGTH_MASK
        position += LZ4_LENGTH_BYTES
        if length == 0:
            return position
        position += length + checksum_bytes
    raise DecompressionError("the lz4 frame is cut short: it has no end mark")


def zstd_blocks_end(data, Py_ssize_t position, int64_t block_bytes_max):
    """Return the position after the last block, which may be after the data, and the most bytes the blocks can hold.

    The first block is at `position`, and no block holds more than `block_bytes_max`.
    """
    cdef PinnedBuffer buffer = PinnedBuffer(data)
    cdef int64_t header, length, most_bytes = 0
    cdef int kind
    while position <= buffer.size - ZSTD_HEADER_BYTES:
        header = little(buffer.data + position, ZSTD_HEADER_BYTES)
        kind = header >> 1 & 3
        length = header >> 3
        if length > block_bytes_max or kind == ZSTD_RESERVED:
            raise DecompressionError(f"the zstd stream is damaged: a block of kind {kind} says {length} bytes")
        most_bytes += block_bytes_max if kind == ZSTD_COMPRESSED else length
        position += ZSTD_HEADER_BYTES + (1 if kind == ZSTD_REPEATED else length)
        if header & 1:
            return position, most_bytes
    raise DecompressionError("the zstd stream is cut short: it has no last block")


def join_parts(list parts):
    """Join the parts of a stream's output, and empty the list on the way: never are all of them in memory twice."""
    cdef bytes part, made
    cdef Py_ssize_t index, size = 0
    cdef uint8_t* room
    cdef const uint8_t* source
    if len(parts) == 1:
        return parts.pop()
    for part in parts:
        size += len(part)
    made = PyBytes_FromStringAndSize(NULL, size)  # of a large one no page is in memory until it is written
    room = <uint8_t*>PyBytes_AS_STRING(made)
    for index in range(len(parts)):
        part = parts[index]
        parts[index] = None
        source = <const uint8_t*>PyBytes_AS_STRING(part)
        size = len(part)
        if size >= LARGE_PART_BYTES:
            with nogil:
                memcpy(room, source, size)
        else:
            memcpy(room, source, size)
        room += size
    parts.clear()
    return made
