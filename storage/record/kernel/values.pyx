# cython: language_level=3, auto_pickle=False, autotestdict=False
"""The values or the keys of batches as lines: each one's bytes and a newline, for a null the newline alone.

With criteria there is in place of each line the place of the record, and only of those that match.

Either the lines are written or only their bytes are counted, by the same reading. A batch counts whole or not at all.
Decompressing is done by functions that the caller gives. What of a log is visible, and what to do about damage, is
left to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from storage.errors import StorageError
from storage.record.kernel cimport wire
from storage.record.kernel.batch cimport fetch_ahead
from storage.record.kernel.matching cimport Criteria, Wanted, may_have, places_room, put_places
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.runs cimport Bounds, Header, Passed, is_sound, read_header
from storage.record.kernel.walk cimport BatchFrame

cdef extern from "Python.h":
    void Py_SET_SIZE(PyObject* value, Py_ssize_t size) noexcept
    PyObject* PyBytes_FromStringAndSize(const char* data, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject** value, Py_ssize_t size) except -1
    void Py_XDECREF(PyObject* value)

cdef enum:
    DAMAGED = -1
    DECOMPRESSED_BYTES_MAX = 33554432  # with which a run ends: small batches may hold many bytes and few of its lines

cdef inline int64_t put_lines(
    wire.Bytes at, wire.Bytes end, int64_t count, bint of_keys, uint8_t* target
) noexcept nogil:
    """The bytes of the lines of exactly so many records, which are written unless `target` is NULL; or DAMAGED.

    A record takes at least six bytes more than its line, so the lines fit where the records would.
    """
    cdef wire.Span span
    cdef wire.Bytes start
    cdef wire.Bytes text
    cdef int64_t total = 0, index, size
    for index in range(count):
        start = at
        if wire.read_record(&at, end, &span):
            return DAMAGED
        size = span.key_size if of_keys else span.value_size
        if target != NULL:
            # Of long records the processor itself does not see early enough where the next one begins.
            fetch_ahead(start, at)
            if size > 0:
                text = span.key if of_keys else span.value
                memcpy(target + total, text, size)
                total += size
            target[total] = c"\n"
            total += 1
        else:
            total += max(size, 0) + 1
    return total if at == end else DAMAGED


# What is made of a run's records: places if `wanted` is not NULL, and otherwise lines.
cdef struct Form:
    bint of_keys
    const Wanted* wanted
    int64_t position  # of the run's first batch


cdef inline int64_t put(
    wire.Bytes header, wire.Bytes at, wire.Bytes end, int64_t count, const Form* form, int64_t log_bytes, uint8_t* target
) noexcept nogil:
    """Write what is made of a batch that begins so many bytes into the run, or only count it; or DAMAGED."""
    if form.wanted == NULL:
        return put_lines(at, end, count, form.of_keys, target)
    return put_places(header, at, end, form.position + log_bytes, form.wanted, target)


cdef void pass_plain(
    wire.Bytes data, const Bounds* bounds, const Form* form, Passed* passed, uint8_t* target
) noexcept nogil:
    """Go on with a run up to its end, or to a compressed batch. The lines fit where the batches would."""
    cdef Header header
    cdef int64_t added
    data += passed.log_bytes
    while passed.line_bytes < bounds.line_bytes_max:
        if not read_header(data, bounds.left - passed.log_bytes, bounds, &header) or header.codec:
            return
        added = 0
        if header.has_lines and (form.wanted == NULL or may_have(data, form.wanted)):
            added = put(
                data, data + wire.HEADER_SIZE, data + header.size, header.count, form, passed.log_bytes, target
            )
            if added == DAMAGED:
                return
        # Summing what was just read is much faster than reading what was just summed.
        if not is_sound(data, header.size):
            return
        passed.last_at = passed.log_bytes
        passed.log_bytes += header.size
        passed.line_bytes += added
        data += header.size
        if target != NULL:
            target += added


@final
cdef class Run:
    """A run of batches while its lines are made or counted."""

    cdef BatchFrame first
    cdef Bounds bounds
    cdef Passed passed
    cdef tuple decompressors
    cdef bint only_size
    cdef Form form
    cdef Criteria criteria  # to which `form` may point
    cdef int64_t decompressed_bytes
    cdef PyObject* lines  # a bytes object that nothing else refers to, written up to `passed.line_bytes`
    cdef int64_t capacity

    def __dealloc__(self):
        Py_XDECREF(self.lines)

    cdef uint8_t* room(self, int64_t size, int64_t likely) except? NULL:
        """Return the place for the next lines, of up to `size` bytes; NULL if lines are only counted.

        `likely` is what all that follow may take, which is allocated if nothing is yet.
        """
        cdef int64_t needed = self.passed.line_bytes + size
        if self.only_size:
            return NULL
        if self.lines == NULL:
            self.capacity = max(needed, min(likely, self.bounds.line_bytes_max + size))
            self.lines = PyBytes_FromStringAndSize(NULL, self.capacity)
        elif needed > self.capacity:
            self.capacity = max(needed, min(2 * self.capacity, self.bounds.line_bytes_max + size))
            _PyBytes_Resize(&self.lines, self.capacity)
        return <uint8_t*>PyBytes_AS_STRING(<object>self.lines) + self.passed.line_bytes

    cdef int64_t needed(self, int64_t records_bytes):
        """Return the most bytes that what is made of records of so many bytes may take."""
        return records_bytes if self.form.wanted == NULL else places_room(records_bytes)

    cdef bint go_on(self) except -1:
        """Pass the next batches; false unless the run goes on after them."""
        cdef wire.Bytes data = self.first.data()
        cdef int64_t left = self.bounds.left - self.passed.log_bytes
        cdef uint8_t* target
        cdef Header header
        if not read_header(data + self.passed.log_bytes, left, &self.bounds, &header):
            return False
        if header.codec:
            if header.codec >= len(self.decompressors) or not self.pass_compressed(&header):
                return False
        else:
            target = self.room(self.needed(left), self.needed(left))
            with nogil:
                pass_plain(data, &self.bounds, &self.form, &self.passed, target)
            if self.passed.log_bytes == self.bounds.left - left:
                return False
        return (
            self.passed.line_bytes < self.bounds.line_bytes_max and self.decompressed_bytes < DECOMPRESSED_BYTES_MAX
        )

    cdef bint pass_compressed(self, Header* header) except -1:
        """Pass the compressed batch with this header; false if it is damaged."""
        cdef Py_ssize_t start = self.first.start + self.passed.log_bytes
        cdef wire.Bytes data = self.first.data() + self.passed.log_bytes
        cdef int64_t left = self.bounds.left - self.passed.log_bytes
        cdef int64_t added = 0, likely
        cdef PinnedBuffer records
        cdef uint8_t* target
        cdef bint sound
        with nogil:
            sound = is_sound(data, header.size)
        if not sound:
            return False
        if header.has_lines and (self.form.wanted == NULL or may_have(data, self.form.wanted)):
            stored = self.first.buffer.view(start + wire.HEADER_SIZE, start + header.size)
            try:
                records = PinnedBuffer(self.decompressors[header.codec](stored))
            except (StorageError, MemoryError):
                return False
            self.decompressed_bytes += records.size
            likely = <int64_t>(<double>records.size * left / header.size) if self.form.wanted == NULL else 0
            target = self.room(self.needed(records.size), likely)
            with nogil:
                added = put(
                    data,
                    records.data,
                    records.data + records.size,
                    header.count,
                    &self.form,
                    self.passed.log_bytes,
                    target,
                )
            if added == DAMAGED:
                return False
        self.passed.last_at = self.passed.log_bytes
        self.passed.log_bytes += header.size
        self.passed.line_bytes += added
        return True

    cdef bytes result(self):
        """Return the lines, which this object gives up."""
        cdef PyObject* lines = self.lines
        self.lines = NULL
        return b"" if lines == NULL else cut(taken(lines), self.passed.line_bytes)


def run_lines(
    BatchFrame first not None,
    int64_t end_position,
    int64_t end_offset,
    bint with_transactions,
    *,
    bint of_keys=False,
    tuple decompressors=(),
    int64_t line_bytes_max=INT64_MAX,
    bint only_size=False,
    Criteria criteria=None,
):
    """Return the bytes of the log in the run from `first` on, those of them before its last batch, and its lines.

    The lines are the values of the records or, with `of_keys`, their keys. With `criteria` they are the places of the
    records that match: for each the position of its batch and its offset, as two native 64-bit numbers.
    The run is of batches that lie one after another in the same memory and before `end_position`. It ends before the
    first that begins at or above `end_offset`, or that needs a closer look: one that is of an old version, damaged, or,
    unless they are to be taken as they are, of a transaction. Control batches have no lines. It ends after the batch
    with which its lines come to `line_bytes_max` or more, or what it decompressed to 32 MiB.

    `decompressors` are functions by the numbers of the codecs, of the stored records; a compressed batch without one
    ends the run, as does one whose function raises `StorageError` or `MemoryError`. With `only_size` there is the size of the lines in
    their place.
    """
    cdef Run run = Run.__new__(Run)
    run.first = first
    run.decompressors = decompressors
    run.only_size = only_size
    run.form.of_keys = of_keys
    run.form.position = first.position
    run.form.wanted = NULL
    if criteria is not None:
        run.criteria = criteria
        run.form.wanted = &run.criteria.wanted
    run.bounds.left = min(first.buffer.size - first.start, end_position - first.position)
    run.bounds.end_offset = end_offset
    run.bounds.line_bytes_max = line_bytes_max
    run.bounds.with_transactions = with_transactions
    run.passed.log_bytes = run.passed.last_at = run.passed.line_bytes = 0
    while run.go_on():
        pass
    return run.passed.log_bytes, run.passed.last_at, run.passed.line_bytes if only_size else run.result()


cdef bytes taken(PyObject* owned):
    """Take over the reference to a bytes object."""
    cdef bytes lines = <bytes>owned
    Py_DECREF(lines)
    return lines


cdef bytes cut(bytes lines, Py_ssize_t size):
    """Return the first bytes of an object that nothing else refers to yet."""
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
