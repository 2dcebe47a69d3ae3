# cython: language_level=3, auto_pickle=False, autotestdict=False
"""A hold on somebody's bytes: as long as a `Region` lives, its memory stays where it is."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact
from cpython.memoryview cimport PyMemoryView_FromObject


cdef class Region:
    """The bytes of any object with the buffer protocol, kept alive and in place by this object.

    Records and frames point into a region and hold it, so they may outlive the buffer's other users. Whoever
    hands over a writable buffer promises not to change it while anything points into it.
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
            raise IndexError(f"{start}..{end} is not within a region of {self.size} bytes")
        whole = PyMemoryView_FromObject(<object>self.buffer.obj)
        # Bytes are what nearly every region is of, and need no other shape; making one takes as long as the rest.
        if not PyBytes_CheckExact(<object>self.buffer.obj):
            whole = whole.cast("B")
        return whole[start:end]
