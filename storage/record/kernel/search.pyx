# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Searching the entries of an index file: big-endian, ascending, all of one size.

Every search gives the slot of the largest entry that is not above its target, or -1 if all are above it, and reads
nothing after the first `count` entries. The last 8 KiB are tried first: nearly every lookup is near the end of a
log, and so it touches the same few pages again and again instead of a path of pages through the whole file.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from storage.record.kernel cimport wire

cdef extern from *:
    void prefetch "__builtin_prefetch" (const uint8_t* at) noexcept nogil

cdef enum:
    WARM_BYTES = 8192
    OFFSET_ENTRY_BYTES = 8  # i32 offset, i32 position
    TIME_ENTRY_BYTES = 12  # i64 timestamp, i32 offset
    TIMED_OFFSET_AT = 8


cdef inline int64_t field(const uint8_t* at, bint is_wide) noexcept nogil:
    return <int64_t>wire.load64(at) if is_wide else <int32_t>wire.load32(at)


cdef inline Py_ssize_t floor_slot(
    const uint8_t* first, Py_ssize_t entry_bytes, bint is_wide, Py_ssize_t count, int64_t target
) noexcept nogil:
    """`first` is where the compared field of the first entry begins."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t within = count
    cdef Py_ssize_t warm = max(count - 1 - WARM_BYTES // entry_bytes, 0)
    cdef Py_ssize_t half
    if count == 0:
        return -1
    if field(first + warm * entry_bytes, is_wide) < target:
        low = warm
        within = count - warm
    elif field(first, is_wide) > target:
        return -1
    else:
        within = warm + 1
    # The slot is one of `within` from `low` on. Which half it is in cannot be predicted, so nothing branches on it,
    # and the middles of both are on their way from memory meanwhile.
    while within > 1:
        half = within // 2
        prefetch(first + (low + (within - half) // 2) * entry_bytes)
        prefetch(first + (low + half + (within - half) // 2) * entry_bytes)
        low += half * (field(first + (low + half) * entry_bytes, is_wide) <= target)
        within -= half
    return low


cdef Py_ssize_t search(
    source, Py_ssize_t count, Py_ssize_t entry_bytes, Py_ssize_t field_at, bint is_wide, int64_t target
) except -2:
    cdef Py_buffer buffer
    cdef const uint8_t* first
    PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE)
    try:
        if not 0 <= count <= buffer.len // entry_bytes:
            raise IndexError(f"{count} entries of {entry_bytes} bytes are not within a buffer of {buffer.len} bytes")
        first = <const uint8_t*>buffer.buf + field_at
        # Constants for each kind of entry, so that each gets a loop of its own.
        if entry_bytes == OFFSET_ENTRY_BYTES:
            return floor_slot(first, OFFSET_ENTRY_BYTES, False, count, target)
        if is_wide:
            return floor_slot(first, TIME_ENTRY_BYTES, True, count, target)
        return floor_slot(first, TIME_ENTRY_BYTES, False, count, target)
    finally:
        PyBuffer_Release(&buffer)


def floor_offset(source, Py_ssize_t count, int64_t relative_offset):
    """Search the first `count` entries of an offset index by their offsets."""
    return search(source, count, OFFSET_ENTRY_BYTES, 0, False, relative_offset)


def floor_timestamp(source, Py_ssize_t count, int64_t timestamp):
    """Search the first `count` entries of a time index by their timestamps."""
    return search(source, count, TIME_ENTRY_BYTES, 0, True, timestamp)


def floor_timed_offset(source, Py_ssize_t count, int64_t relative_offset):
    """Search the first `count` entries of a time index by their offsets."""
    return search(source, count, TIME_ENTRY_BYTES, TIMED_OFFSET_AT, False, relative_offset)
