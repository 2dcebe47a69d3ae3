from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly int32_t sequence
    cdef readonly int8_t timestamp_type
    cdef readonly int32_t key_size
    cdef readonly int32_t value_size
    cdef readonly int32_t header_count
    cdef PinnedBuffer buffer
    cdef const uint8_t* key_at
    cdef const uint8_t* value_at
    cdef const uint8_t* headers_at
    cdef const uint8_t* end_at
