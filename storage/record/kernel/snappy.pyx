# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Decompressing snappy, whole streams at a time and without Python's lock.

The framing of snappy-java cuts a batch into thousands of blocks. Calling a library for each of them would give the
lock away and wait for it as often.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from storage.errors import DecompressedTooLargeError, DecompressionError
from storage.record.kernel cimport wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef enum:
    HEADER_BYTES = 16  # magic, version, lowest version that can read it
    MAGIC_BYTES = 8
    LENGTH_BYTES = 4  # of a block; where it is negative, a header begins
    DECLARED_BYTES_MAX = 5
    # Of all that a block is made of, a copy expands most: three bytes make up to 64.
    COPY_BYTES = 3
    COPY_OUTPUT_BYTES_MAX = 64
    LITERAL_LENGTHS = 60  # longer ones follow in one to four bytes
    STRIDE = 16
    HALF_STRIDE = 8

cdef enum Fault:
    NO_FAULT
    HEADER_CUT_SHORT
    LENGTH_CUT_SHORT
    BLOCK_CUT_SHORT
    NEITHER_BLOCK_NOR_HEADER
    NO_DECLARED_SIZE
    DECLARES_TOO_MUCH
    OVER_LIMIT
    ELEMENT_CUT_SHORT
    MORE_THAN_DECLARED
    LESS_THAN_DECLARED
    COPY_FROM_BEFORE

cdef const char* MAGIC = b"\x82SNAPPY\x00"
# How many bytes whole repetitions of so many bytes take, up to half a stride.
cdef uint8_t[8] REPEATED_BYTES = [0, 8, 8, 6, 8, 5, 6, 7]

_TEXTS = {
    HEADER_CUT_SHORT: "the snappy stream is cut short within its header",
    LENGTH_CUT_SHORT: "the snappy stream is cut short within a block's length",
    NEITHER_BLOCK_NOR_HEADER: "the snappy stream has neither a block nor a whole header where one must be",
    NO_DECLARED_SIZE: "the snappy data is damaged: a block does not say how much it holds",
    ELEMENT_CUT_SHORT: "the snappy data is damaged: a block ends within one of its elements",
    MORE_THAN_DECLARED: "the snappy data is damaged: a block holds more than it declares",
    LESS_THAN_DECLARED: "the snappy data is damaged: a block holds less than it declares",
    COPY_FROM_BEFORE: "the snappy data is damaged: a block copies what is before its beginning",
}


cdef struct Block:
    const uint8_t* at  # first all of the block, then its elements
    const uint8_t* end
    int64_t declared_bytes


cdef struct Blocks:
    const uint8_t* at
    const uint8_t* end
    bint is_xerial


cdef inline Py_ssize_t little(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t number = at[0]
    if size > 1:
        number |= <Py_ssize_t>at[1] << 8
        if size > 2:
            number |= <Py_ssize_t>at[2] << 16
            if size > 3:
                number |= <Py_ssize_t>at[3] << 24
    return number


cdef inline Fault read_declared_size(Block* block) noexcept nogil:
    """Read the size before the elements, a number of up to 32 bits."""
    cdef int64_t stored_bytes = block.end - block.at, size = 0
    cdef int index
    for index in range(DECLARED_BYTES_MAX):
        if block.at + index == block.end:
            return NO_DECLARED_SIZE
        size |= <int64_t>(block.at[index] & 0x7F) << 7 * index
        if not block.at[index] & 0x80:
            if size >> 32:
                return NO_DECLARED_SIZE
            block.declared_bytes = size
            if size * COPY_BYTES > stored_bytes * COPY_OUTPUT_BYTES_MAX:
                return DECLARES_TOO_MUCH
            block.at += index + 1
            return NO_FAULT
    return NO_DECLARED_SIZE


cdef inline Fault next_block(Blocks* blocks, Block* block) noexcept nogil:
    """Move to the next block; its `at` is NULL after the last one. Several streams in a row count as one."""
    cdef int32_t length
    if not blocks.is_xerial:
        block.at, block.end, blocks.is_xerial = blocks.at, blocks.end, True
        blocks.at = blocks.end
        return read_declared_size(block)
    while blocks.at < blocks.end:
        if blocks.end - blocks.at < LENGTH_BYTES:
            return LENGTH_CUT_SHORT
        length = <int32_t>wire.load32(blocks.at)
        if length < 0:
            if blocks.end - blocks.at < HEADER_BYTES or memcmp(blocks.at, MAGIC, MAGIC_BYTES):
                return NEITHER_BLOCK_NOR_HEADER
            blocks.at += HEADER_BYTES
            continue
        block.at = blocks.at + LENGTH_BYTES
        block.end = block.at + length
        if length > blocks.end - block.at:
            return BLOCK_CUT_SHORT
        blocks.at = block.end
        return read_declared_size(block)
    block.at = NULL
    return NO_FAULT


cdef inline void copy_back(uint8_t* to, Py_ssize_t distance, Py_ssize_t length, const uint8_t* room_end) noexcept nogil:
    """Copy bytes from so far before; they may overlap. What follows them up to the room's end may be overwritten."""
    cdef const uint8_t* source = to - distance
    cdef Py_ssize_t index
    if room_end - to < COPY_OUTPUT_BYTES_MAX + STRIDE:
        for index in range(length):
            to[index] = source[index]
    elif distance >= STRIDE:
        memcpy(to, source, STRIDE)
        index = STRIDE
        while index < length:
            memcpy(to + index, source + index, STRIDE)
            index += STRIDE
    elif distance == 1:
        memset(to, source[0], COPY_OUTPUT_BYTES_MAX)
    else:
        if distance < HALF_STRIDE:  # the bytes repeat: copied one by one, as often as they fit
            for index in range(HALF_STRIDE):
                to[index] = source[index]
            index = REPEATED_BYTES[distance]
            to, length = to + index, length - index
        index = 0
        while index < length:
            memcpy(to + index, source + index, HALF_STRIDE)
            index += HALF_STRIDE


cdef Fault decompress_block(const Block* block, uint8_t* to, const uint8_t* room_end) noexcept nogil:
    """Decompress a block, for which there is room; the room after it may be overwritten."""
    cdef const uint8_t* at = block.at
    cdef const uint8_t* end = block.end
    cdef const uint8_t* begin = to
    cdef const uint8_t* to_end = to + block.declared_bytes
    cdef Py_ssize_t length, distance, extra
    cdef uint8_t tag
    while at < end:
        tag = at[0]
        at += 1
        extra = tag & 3
        if extra == 0:
            length = tag >> 2
            if length >= LITERAL_LENGTHS:
                extra = length - LITERAL_LENGTHS + 1
                if end - at < extra:
                    return ELEMENT_CUT_SHORT
                length = little(at, extra)
                at += extra
            length += 1
            if length > to_end - to:
                return MORE_THAN_DECLARED
            if length <= STRIDE and end - at >= STRIDE and room_end - to >= STRIDE:
                memcpy(to, at, STRIDE)
            elif length > end - at:
                return ELEMENT_CUT_SHORT
            else:
                memcpy(to, at, length)
            at += length
            to += length
            continue
        if extra == 3:
            extra = 4
        if end - at < extra:
            return ELEMENT_CUT_SHORT
        distance = little(at, extra)
        at += extra
        if extra == 1:
            length = (tag >> 2 & 7) + 4
            distance |= <Py_ssize_t>(tag >> 5) << 8
        else:
            length = (tag >> 2) + 1
        if distance == 0 or distance > to - begin:
            return COPY_FROM_BEFORE
        if length > to_end - to:
            return MORE_THAN_DECLARED
        copy_back(to, distance, length, room_end)
        to += length
    return NO_FAULT if to == to_end else LESS_THAN_DECLARED


cdef Fault measure(Blocks blocks, Block* block, int64_t limit_bytes, int64_t* size_bytes) noexcept nogil:
    """Add up what the blocks declare, as far as the limit."""
    cdef Fault fault = next_block(&blocks, block)
    while fault == NO_FAULT and block.at != NULL:
        size_bytes[0] += block.declared_bytes
        if size_bytes[0] > limit_bytes:
            return OVER_LIMIT
        fault = next_block(&blocks, block)
    return fault


cdef Fault decompress_blocks(Blocks blocks, uint8_t* to, const uint8_t* room_end) noexcept nogil:
    """Decompress measured blocks one after another."""
    cdef Block block
    cdef Fault fault = next_block(&blocks, &block)
    while fault == NO_FAULT and block.at != NULL:
        fault = decompress_block(&block, to, room_end)
        to += block.declared_bytes
        if fault == NO_FAULT:
            fault = next_block(&blocks, &block)
    return fault


def decompress_snappy(data, int64_t limit_bytes):
    """Return what a raw block holds, or the blocks of a stream that begins with snappy-java's magic.

    Raises `DecompressionError` for what is damaged, and `DecompressedTooLargeError` for more than the limit.
    """
    cdef PinnedBuffer source = PinnedBuffer(data)
    cdef Blocks blocks
    cdef Block block
    cdef int64_t size_bytes = 0
    cdef Fault fault
    cdef bytes made
    cdef uint8_t* room
    blocks.at, blocks.end = source.data, source.data + source.size
    blocks.is_xerial = source.size >= MAGIC_BYTES and not memcmp(source.data, MAGIC, MAGIC_BYTES)
    if blocks.is_xerial:
        if source.size < HEADER_BYTES:
            raise DecompressionError(_TEXTS[HEADER_CUT_SHORT])
        blocks.at += HEADER_BYTES
    block.at = block.end = NULL
    with nogil:
        fault = measure(blocks, &block, limit_bytes, &size_bytes)
    if fault == OVER_LIMIT:
        raise DecompressedTooLargeError(f"the snappy data holds more than the limit of {limit_bytes} bytes")
    if fault == DECLARES_TOO_MUCH:
        raise DecompressionError(
            f"a snappy block of {block.end - block.at} bytes declares {block.declared_bytes}, more than it can hold"
        )
    if fault == BLOCK_CUT_SHORT:
        raise DecompressionError(
            f"the snappy stream is cut short: of a block of {block.end - block.at} bytes "
            f"{source.data + source.size - block.at} are there"
        )
    if fault == NO_FAULT:
        made = PyBytes_FromStringAndSize(NULL, size_bytes)
        room = <uint8_t*>PyBytes_AS_STRING(made)
        with nogil:
            fault = decompress_blocks(blocks, room, room + size_bytes)
        if fault == NO_FAULT:
            return made
    raise DecompressionError(_TEXTS[fault])
