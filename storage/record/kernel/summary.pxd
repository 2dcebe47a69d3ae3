from libc.stdint cimport int64_t

from storage.record.kernel cimport wire


cdef class RecordsSummary:
    cdef readonly int64_t min_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t keyless
    cdef readonly int64_t headers
    cdef readonly int64_t most_headers
    cdef readonly bint is_consecutive
    cdef int look(self, wire.Bytes at, wire.Bytes end, int64_t base_timestamp, int64_t count) noexcept nogil
