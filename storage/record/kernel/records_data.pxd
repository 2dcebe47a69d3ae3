"""Writing encoded records: memory that grows, and how one record is put into it."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from storage.record.kernel cimport wire
from storage.record.kernel.summary cimport RecordsSummary


# One record to be written. The writer itself adds the bytes of the headers; only their size is here.
cdef struct Draft:
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_size
    int64_t value_size
    int64_t header_count
    int64_t headers_size
    wire.Bytes key
    wire.Bytes value


cdef class RecordsData:
    cdef PyObject* memory
    cdef uint8_t* start
    cdef uint8_t* limit
    cdef Py_ssize_t largest
    cdef bint sealed
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef int64_t min_timestamp
    cdef int64_t keyless
    cdef readonly Py_ssize_t stop
    cdef bint make_room(self, uint8_t** at, int64_t needed, int64_t done, int64_t total) except -1
    cdef int finish(self, uint8_t* at) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1


cdef class EncodedBatch:
    cdef readonly bytes data
    cdef readonly RecordsSummary summary


cdef RecordsData new_records_data(object max_bytes)
cdef int64_t whole(object value, str name, int64_t smallest, int64_t largest) except? -1


cdef inline void count_record(RecordsData records_data, int64_t timestamp, int64_t key_size) noexcept:
    """Count a record that was written, for the summary of all of them."""
    records_data.max_timestamp = max(records_data.max_timestamp, timestamp)
    if timestamp != wire.NO_TIMESTAMP and (
        records_data.min_timestamp == wire.NO_TIMESTAMP or timestamp < records_data.min_timestamp
    ):
        records_data.min_timestamp = timestamp
    records_data.keyless += key_size < 0
    records_data.count += 1


cdef inline int64_t body_size(const Draft* draft) noexcept nogil:
    """The number of bytes after the record's length; `make_room` refuses what the length cannot express."""
    return (
        1
        + wire.varint_size(draft.timestamp_delta)
        + wire.varint_size(draft.offset_delta)
        + wire.varint_size(draft.key_size)
        + (draft.key_size if draft.key_size > 0 else 0)
        + wire.varint_size(draft.value_size)
        + (draft.value_size if draft.value_size > 0 else 0)
        + wire.varint_size(draft.header_count)
        + draft.headers_size
    )


cdef inline uint8_t* write_piece(uint8_t* at, wire.Bytes data, int64_t size) noexcept nogil:
    """A size and so many bytes, or the size that says null."""
    at = wire.write_varint(at, size)
    if size <= 0:
        return at
    memcpy(at, data, size)
    return at + size


cdef inline uint8_t* write_draft(uint8_t* at, int64_t body, const Draft* draft) noexcept nogil:
    """The record up to its headers. There is room for all of it, and `body` is its `body_size`."""
    at = wire.write_varint(at, body)
    at[0] = 0  # the record's attributes: none is defined
    at = wire.write_varint(at + 1, draft.timestamp_delta)
    at = wire.write_varint(at, draft.offset_delta)
    at = write_piece(at, draft.key, draft.key_size)
    at = write_piece(at, draft.value, draft.value_size)
    return wire.write_varint(at, draft.header_count)
