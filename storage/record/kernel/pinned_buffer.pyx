# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Keeping bytes in place: as long as a `PinnedBuffer` lives, its memory is neither freed nor moved."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact
from cpython.memoryview cimport PyMemoryView_FromObject
from cython cimport final


cdef class PinnedBuffer:
    """The bytes of any object with the buffer protocol, kept alive and in place by this object.

    Records and frames point into it and keep it, so they may outlive the buffer's other users. A caller that passes
    a writable buffer must not change it while anything points into it.
    """

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.data = <const uint8_t*>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

    def __len__(self):
        return self.size

    def view(self, Py_ssize_t start, Py_ssize_t end):
        """The bytes from start to end without a copy; the view keeps the underlying object alive."""
        if not 0 <= start <= end <= self.size:
            raise IndexError(f"{start}..{end} is not within a buffer of {self.size} bytes")
        whole = PyMemoryView_FromObject(<object>self.buffer.obj)
        # Bytes are what nearly every one is of, and need no other shape; making one takes as long as the rest.
        if not PyBytes_CheckExact(<object>self.buffer.obj):
            whole = whole.cast("B")
        return whole[start:end]


@final
cdef class LeasedBuffer:
    """Bytes with the lease of their memory, which is dropped when nothing refers to them any more.

    Records and views of this buffer keep it. The lease is any object.
    """

    cdef Py_buffer buffer
    cdef object lease

    def __cinit__(self, source, lease):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.lease = lease

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

    def __len__(self):
        return self.buffer.len

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.buffer.buf, self.buffer.len, True, flags)
