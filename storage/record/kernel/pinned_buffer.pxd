from cpython.buffer cimport Py_buffer
from libc.stdint cimport uint8_t

cdef class PinnedBuffer:
    cdef Py_buffer buffer
    cdef const uint8_t* data
    cdef Py_ssize_t size
