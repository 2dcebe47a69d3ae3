from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef class Frame:
    cdef readonly PinnedBuffer buffer
    cdef Py_ssize_t start
    cdef readonly int64_t position
    cdef readonly Py_ssize_t size_bytes  # up to 11 more than 32 bits hold
    cdef readonly int magic
    cdef readonly int attributes
    cdef readonly uint32_t crc
    cdef const uint8_t* data(self) noexcept

cdef class BatchFrame(Frame):
    cdef readonly int64_t base_offset
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t count
    cdef uint32_t computed_crc(self) noexcept

cdef class EntryFrame(Frame):
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly int32_t key_size
    cdef readonly int32_t value_size
    cdef Py_ssize_t key_start
    cdef Py_ssize_t value_start
