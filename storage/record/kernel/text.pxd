"""Turning bytes that should be UTF-8 into bytes that are, as decoders that replace what they cannot read do it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from storage.record.kernel.wire cimport Bytes

cdef enum:
    REPLACEMENT_SIZE = 3  # U+FFFD is EF BF BD


cdef inline bint is_ascii(Bytes data, int64_t size) noexcept nogil:
    cdef uint64_t word, seen = 0
    while size >= 8:
        memcpy(&word, data, 8)
        seen |= word
        data += 8
        size -= 8
    while size > 0:
        seen |= data[0]
        data += 1
        size -= 1
    return seen & 0x8080808080808080ULL == 0


cdef inline int character_size(Bytes at, Bytes end) noexcept nogil:
    """The size of the character at `at`; if there is none, minus the size of what one U+FFFD stands for."""
    cdef uint8_t first = at[0]
    cdef uint8_t lowest = 0x80, highest = 0xBF
    cdef int index, size
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return -1
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    # The second byte's bounds exclude overlong forms, surrogates, and what lies beyond U+10FFFF.
    if first == 0xE0:
        lowest = 0xA0
    elif first == 0xED:
        highest = 0x9F
    elif first == 0xF0:
        lowest = 0x90
    elif first == 0xF4:
        highest = 0x8F
    for index in range(1, size):
        if at + index >= end or at[index] < lowest or at[index] > highest:
            return -index
        lowest = 0x80
        highest = 0xBF
    return size


cdef inline int64_t text_size(Bytes data, int32_t size) noexcept nogil:
    """The number of bytes that `write_text` writes."""
    cdef Bytes end = data + size
    cdef int64_t total = 0
    cdef int step
    if is_ascii(data, size):
        return size
    while data < end:
        step = character_size(data, end)
        total += step if step > 0 else REPLACEMENT_SIZE
        data += step if step > 0 else -step
    return total


cdef inline int64_t write_text(uint8_t* target, Bytes data, int32_t size) noexcept nogil:
    """Write the bytes with U+FFFD for whatever is not UTF-8, and return how many bytes that made."""
    cdef Bytes end = data + size
    cdef uint8_t* at = target
    cdef int step
    if is_ascii(data, size):
        memcpy(target, data, size)
        return size
    while data < end:
        step = character_size(data, end)
        if step > 0:
            memcpy(at, data, step)
            at += step
            data += step
        else:
            memcpy(at, b"\xef\xbf\xbd", REPLACEMENT_SIZE)
            at += REPLACEMENT_SIZE
            data -= step
    return at - target
