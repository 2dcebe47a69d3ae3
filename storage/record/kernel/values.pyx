# cython: language_level=3, auto_pickle=False, autotestdict=False
"""The values of batches as lines: each value's bytes and a newline, for a null the newline alone.

Either the lines are written or only their bytes are counted, by the same reading. A batch counts whole or not at all.
What of a log is visible, and what to do about damage, is left to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.batch cimport fetch_ahead
from storage.record.kernel.crc32c cimport checksum
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.walk cimport BatchFrame

cdef extern from "Python.h":
    void Py_SET_SIZE(PyObject* value, Py_ssize_t size) noexcept

cdef enum:
    DAMAGED = -1

# How far a run came: through so many bytes of the log, the last batch of which begins at `last_at`.
cdef struct Passed:
    int64_t log_bytes
    int64_t last_at
    int64_t line_bytes

cdef struct Bounds:
    int64_t left  # bytes of the log
    int64_t end_offset
    bint with_transactions


cdef inline int64_t put_lines(wire.Bytes at, wire.Bytes end, int64_t count, uint8_t* target) noexcept nogil:
    """The bytes of the lines of exactly so many records, which are written unless `target` is NULL; or DAMAGED.

    A record takes at least six bytes more than its line, so the lines fit where the records would.
    """
    cdef wire.Span span
    cdef wire.Bytes start
    cdef int64_t total = 0, index
    for index in range(count):
        start = at
        if wire.read_record(&at, end, &span):
            return DAMAGED
        if target != NULL:
            # Of long records the processor itself does not see early enough where the next one begins.
            fetch_ahead(start, at)
            if span.value_size > 0:
                memcpy(target + total, span.value, span.value_size)
                total += span.value_size
            target[total] = c"\n"
            total += 1
        else:
            total += max(span.value_size, 0) + 1
    return total if at == end else DAMAGED


cdef Passed run_batches(wire.Bytes data, Bounds bounds, uint8_t* target) noexcept nogil:
    cdef Passed passed
    cdef int64_t length, added
    cdef int32_t count
    cdef int attributes
    passed.log_bytes = passed.last_at = passed.line_bytes = 0
    while bounds.left - passed.log_bytes >= wire.HEADER_SIZE:
        length = <int64_t><int32_t>wire.load32(data + wire.LENGTH_AT) + wire.LOG_OVERHEAD
        if length < wire.HEADER_SIZE or length > bounds.left - passed.log_bytes or data[wire.MAGIC_AT] != 2:
            break
        attributes = wire.load16(data + wire.ATTRIBUTES_AT)
        if attributes & wire.CODEC_MASK or (attributes & wire.TRANSACTIONAL_BIT and not bounds.with_transactions):
            break
        if <int64_t>wire.load64(data) >= bounds.end_offset:
            break
        count = <int32_t>wire.load32(data + wire.COUNT_AT)
        added = 0
        if count < 0:
            break
        if count and not attributes & wire.CONTROL_BIT:
            added = put_lines(
                data + wire.HEADER_SIZE, data + length, count, target + passed.line_bytes if target != NULL else NULL
            )
            if added == DAMAGED:
                break
        # Summing what was just read is much faster than reading what was just summed.
        if wire.load32(data + wire.CRC_AT) != checksum(data + wire.ATTRIBUTES_AT, length - wire.ATTRIBUTES_AT):
            break
        passed.last_at = passed.log_bytes
        passed.log_bytes += length
        passed.line_bytes += added
        data += length
    return passed


cdef Bounds bounds_of(BatchFrame first, int64_t end_position, int64_t end_offset, bint with_transactions):
    cdef Bounds bounds
    bounds.left = min(first.buffer.size - first.start, end_position - first.position)
    bounds.end_offset = end_offset
    bounds.with_transactions = with_transactions
    return bounds


def run_lines(BatchFrame first not None, int64_t end_position, int64_t end_offset, bint with_transactions):
    """Return the bytes of the log in the run from `first` on, those of them before its last batch, and its lines.

    The run is of batches that lie one after another in the same memory and before `end_position`. It ends before the
    first that begins at or above `end_offset`, or that needs a closer look: one that is compressed, of an old version,
    damaged, or, unless they are to be taken as they are, of a transaction. Control batches have no lines.
    """
    cdef Bounds bounds = bounds_of(first, end_position, end_offset, with_transactions)
    cdef Passed passed
    cdef wire.Bytes data = first.data()
    cdef uint8_t* target
    cdef bytes lines
    if bounds.left < wire.HEADER_SIZE:
        return 0, 0, b""
    lines = PyBytes_FromStringAndSize(NULL, bounds.left)
    target = <uint8_t*>PyBytes_AS_STRING(lines)
    with nogil:
        passed = run_batches(data, bounds, target)
    return passed.log_bytes, passed.last_at, cut(lines, passed.line_bytes)


def run_size(BatchFrame first not None, int64_t end_position, int64_t end_offset, bint with_transactions):
    """The same with the size of the lines in their place."""
    cdef Bounds bounds = bounds_of(first, end_position, end_offset, with_transactions)
    cdef wire.Bytes data = first.data()
    cdef Passed passed
    with nogil:
        passed = run_batches(data, bounds, NULL)
    return passed.log_bytes, passed.last_at, passed.line_bytes


def batch_lines(BatchFrame batch not None, records_data):
    """The lines of a batch whose uncompressed records are in `records_data`; raises `MalformedRecordsError`."""
    cdef PinnedBuffer buffer = PinnedBuffer(records_data)
    cdef bytes lines = PyBytes_FromStringAndSize(NULL, buffer.size)
    return cut(lines, pass_section(batch, buffer, <uint8_t*>PyBytes_AS_STRING(lines)))


def batch_lines_size(BatchFrame batch not None, records_data):
    """The size of the lines."""
    return pass_section(batch, PinnedBuffer(records_data), NULL)


cdef int64_t pass_section(BatchFrame batch, PinnedBuffer buffer, uint8_t* target) except -1:
    cdef wire.Bytes at = buffer.data
    cdef wire.Bytes end = buffer.data + buffer.size
    cdef int64_t count = batch.count, size
    if count == 0:
        return 0
    if buffer.size < limits.UNLOCKED_BYTES_MIN:
        size = put_lines(at, end, count, target)
    else:
        with nogil:
            size = put_lines(at, end, count, target)
    if size == DAMAGED or count < 0:
        raise MalformedRecordsError(
            f"the batch does not hold exactly {count} records",
            position=batch.position,
            offset=batch.base_offset,
        )
    return size


cdef bytes cut(bytes lines, Py_ssize_t size):
    """The first bytes of an object that nothing else refers to yet."""
    cdef PyObject* memory = <PyObject*>lines
    cdef Py_ssize_t capacity = len(lines)
    if size == 0:
        return b""
    if capacity - size <= capacity >> 2:
        # Large pieces of memory are given out and taken back without a system call only if they keep their size.
        Py_SET_SIZE(memory, size)
        PyBytes_AS_STRING(lines)[size] = 0
        return lines
    return lines[:size]
