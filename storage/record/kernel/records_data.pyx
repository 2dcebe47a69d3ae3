# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Encoded records, and the batch that a header in front of them makes.

Records are written after room for the header, so an uncompressed batch is sealed where it lies: one allocation,
one pass. Every field is checked against its width; what the fields must mean together is left to the caller.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cython cimport final, no_gc
from libc.stdint cimport INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from storage.errors import InvalidRecordError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.crc32c cimport checksum
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.summary cimport RecordsSummary

cdef extern from "Python.h":
    char* PyBytes_AS_STRING(PyObject* value) noexcept
    int _PyBytes_Resize(PyObject** value, Py_ssize_t size) except -1
    void Py_SET_SIZE(PyObject* value, Py_ssize_t size) noexcept
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

cdef enum:
    MAGIC = 2
    FIRST_CAPACITY = 4096
    LARGEST_STEP = 16  # how many times larger the memory may get on the word of the records so far

cdef double SMALLEST_STEP = 1.5
cdef double FORESIGHT = 1.0625  # records differ, so this much more memory than if all were alike


cdef int64_t whole(object value, str name, int64_t smallest, int64_t largest) except? -1:
    """The value of an integer within these bounds; of anything else, `InvalidRecordError`."""
    cdef int overflow = 0
    cdef int64_t result
    if not PyLong_Check(value):
        raise InvalidRecordError(f"{name} must be an int, not {type(value).__name__}")
    result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not smallest <= result <= largest:
        raise InvalidRecordError(f"{name} is not within {smallest}..{largest}")
    return result


@final
@no_gc
cdef class RecordsData:
    """Encoded records, uncompressed, as a read-only buffer: what `encode` and `lines` make, and `seal` takes.

    `stop` is where in the input the next records begin.
    """

    def __cinit__(self):
        cdef bytes memory = PyBytes_FromStringAndSize(NULL, wire.HEADER_SIZE)
        Py_INCREF(memory)
        self.memory = <PyObject*>memory
        self.start = <uint8_t*>PyBytes_AS_STRING(self.memory)
        self.limit = self.start + wire.HEADER_SIZE
        self.largest = limits.LARGEST_BATCH
        self.base_timestamp = self.max_timestamp = self.min_timestamp = wire.NO_TIMESTAMP

    def __dealloc__(self):
        Py_XDECREF(self.memory)

    def __len__(self):
        return self.limit - self.start - wire.HEADER_SIZE

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start + wire.HEADER_SIZE, len(self), True, flags)

    cdef bint make_room(self, uint8_t** at, int64_t needed, int64_t done, int64_t total) except -1:
        """Return True if so many bytes more may be written, with room for them at `at`, which may have moved.

        A first record may be larger than what was asked for. With these bytes `done` of the `total` input will be
        done, which foretells how much memory all of it will take.
        """
        cdef Py_ssize_t used = at[0] - self.start + needed
        cdef double expected = <double>used / done * total * FORESIGHT
        if used > (self.largest if self.count else limits.LARGEST_BATCH):
            return False
        expected = min(expected, <double>used * LARGEST_STEP)
        expected = max(expected, used * SMALLEST_STEP, <double>FIRST_CAPACITY)
        self.resize(max(<Py_ssize_t>min(expected, <double>self.largest), used))
        at[0] = self.start + used - needed
        return True

    cdef int finish(self, uint8_t* at) except -1:
        """End the data here. Memory that is not worth moving everything for is kept unused: at most an eighth."""
        cdef Py_ssize_t size = at - self.start
        if self.limit - at > size >> 3:
            return self.resize(size)
        # Large pieces of memory are given out and taken back without a system call only if they keep their size.
        Py_SET_SIZE(self.memory, size)
        at[0] = 0
        self.limit = at
        return 0

    cdef int resize(self, Py_ssize_t capacity) except -1:
        _PyBytes_Resize(&self.memory, capacity)
        self.start = <uint8_t*>PyBytes_AS_STRING(self.memory)
        self.limit = self.start + capacity
        return 0


@final
@no_gc
cdef class EncodedBatch:
    """A batch of rows or lines that were just encoded: its bytes, and the summary that reading them again would give.

    `sealed` is the batch that `seal` made of the data, which counts its offsets from 0 on. It is a buffer of its bytes.
    """

    def __init__(self, bytes sealed not None, RecordsData records_data not None):
        cdef RecordsSummary summary = RecordsSummary.__new__(RecordsSummary)
        summary.min_timestamp = records_data.min_timestamp
        summary.max_timestamp = records_data.max_timestamp
        summary.keyless = records_data.keyless
        summary.is_consecutive = True
        self.data = sealed
        self.summary = summary

    def __len__(self):
        return len(self.data)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, PyBytes_AS_STRING(<PyObject*>self.data), len(self.data), True, flags)


cdef RecordsData new_records_data(object max_bytes):
    """Empty data that takes no second record with which its batch would exceed the maximum."""
    cdef RecordsData records_data = RecordsData.__new__(RecordsData)
    records_data.largest = <Py_ssize_t>min(whole(max_bytes, "max_bytes", 0, INT64_MAX), limits.LARGEST_BATCH)
    return records_data


def seal(
    records_data, *, base_offset, leader_epoch, attributes, last_offset_delta, base_timestamp, max_timestamp,
    producer_id, producer_epoch, base_sequence, count,
):
    """The v2 batch with these fields, its length and its checksum, and `records_data` for its stored records.

    The data is any buffer: the attributes, not this function, say whether it is compressed. A `RecordsData` that
    is sealed for the first time shares its memory with the batch.
    """
    cdef uint8_t[wire.HEADER_SIZE] header
    wire.store64(header, <uint64_t>whole(base_offset, "base_offset", 0, INT64_MAX))
    wire.store32(header + wire.LEADER_EPOCH_AT, <uint32_t>whole(leader_epoch, "leader_epoch", INT32_MIN, INT32_MAX))
    header[wire.MAGIC_AT] = MAGIC
    wire.store16(header + wire.ATTRIBUTES_AT, <uint16_t>whole(attributes, "attributes", INT16_MIN, INT16_MAX))
    wire.store32(
        header + wire.LAST_OFFSET_DELTA_AT, <uint32_t>whole(last_offset_delta, "last_offset_delta", 0, INT32_MAX)
    )
    wire.store64(
        header + wire.BASE_TIMESTAMP_AT, <uint64_t>whole(base_timestamp, "base_timestamp", INT64_MIN, INT64_MAX)
    )
    wire.store64(header + wire.MAX_TIMESTAMP_AT, <uint64_t>whole(max_timestamp, "max_timestamp", INT64_MIN, INT64_MAX))
    wire.store64(header + wire.PRODUCER_ID_AT, <uint64_t>whole(producer_id, "producer_id", INT64_MIN, INT64_MAX))
    wire.store16(
        header + wire.PRODUCER_EPOCH_AT, <uint16_t>whole(producer_epoch, "producer_epoch", INT16_MIN, INT16_MAX)
    )
    wire.store32(header + wire.BASE_SEQUENCE_AT, <uint32_t>whole(base_sequence, "base_sequence", INT32_MIN, INT32_MAX))
    wire.store32(header + wire.COUNT_AT, <uint32_t>whole(count, "count", 0, INT32_MAX))
    return with_header(header, behind_room(records_data))


cdef bytes behind_room(object source):
    """Room for a header and the source's bytes, in a bytes object that nothing else refers to yet."""
    cdef RecordsData records_data
    cdef PinnedBuffer buffer
    cdef bytes batch
    if isinstance(source, RecordsData) and not (<RecordsData>source).sealed:
        records_data = <RecordsData>source
        records_data.sealed = True
        return <bytes>records_data.memory
    buffer = PinnedBuffer(source)
    if buffer.size > limits.LARGEST_BATCH - wire.HEADER_SIZE:
        raise InvalidRecordError(f"{buffer.size} bytes of records do not fit into a batch")
    batch = PyBytes_FromStringAndSize(NULL, wire.HEADER_SIZE + buffer.size)
    memcpy(PyBytes_AS_STRING(<PyObject*>batch) + wire.HEADER_SIZE, buffer.data, buffer.size)
    return batch


cdef bytes with_header(const uint8_t* header, bytes batch):
    """The same batch, its header with length and checksum put in front."""
    cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(<PyObject*>batch)
    cdef size_t covered_bytes = len(batch) - wire.ATTRIBUTES_AT
    cdef uint32_t crc
    memcpy(start, header, wire.HEADER_SIZE)
    wire.store32(start + wire.LENGTH_AT, <uint32_t>(len(batch) - wire.LOG_OVERHEAD))
    if covered_bytes < limits.UNLOCKED_BYTES_MIN:
        crc = checksum(start + wire.ATTRIBUTES_AT, covered_bytes)
    else:
        with nogil:
            crc = checksum(start + wire.ATTRIBUTES_AT, covered_bytes)
    wire.store32(start + wire.CRC_AT, crc)
    return batch


def patch_offset(target, base_offset, leader_epoch):
    """Write the offset and epoch of the v2 batch that a writable buffer begins with; no checksum covers them."""
    cdef int64_t offset = whole(base_offset, "base_offset", 0, INT64_MAX)
    cdef int64_t epoch = whole(leader_epoch, "leader_epoch", INT32_MIN, INT32_MAX)
    cdef Py_buffer buffer
    cdef uint8_t* batch
    PyObject_GetBuffer(target, &buffer, PyBUF_WRITABLE)
    try:
        batch = <uint8_t*>buffer.buf
        if buffer.len < wire.HEADER_SIZE or batch[wire.MAGIC_AT] != MAGIC:
            raise InvalidRecordError("no v2 batch begins there", position=0)
        wire.store64(batch, <uint64_t>offset)
        wire.store32(batch + wire.LEADER_EPOCH_AT, <uint32_t>epoch)
    finally:
        PyBuffer_Release(&buffer)
