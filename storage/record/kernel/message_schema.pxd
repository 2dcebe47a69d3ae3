"""The fields of one version of a message, as the loops that read and write it look at them."""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

cdef enum Kind:
    BOOL
    INT8
    INT16
    UINT16
    INT32
    UINT32
    INT64
    FLOAT64
    UUID
    STRING
    BYTES
    STRUCT
    ARRAY

cdef enum:
    STRING_SIZE_MAX = 32767  # the JVM neither reads nor writes a longer one

cdef struct Field:
    Kind kind
    Kind element  # what an array is of
    bint nullable
    bint tagged
    int64_t tag
    int64_t size_min  # of a value that is not null, or of an array's element
    PyObject* name  # this and what follows are kept by the schema
    PyObject* default
    PyObject* struct  # the schema of a structure, or of an array's elements


cdef class MessageSchema:
    cdef readonly tuple definition
    cdef readonly bint flexible
    cdef dict defaults
    cdef frozenset names
    cdef Field* fields
    cdef int count
    cdef Field** tagged  # by their tags, ascending
    cdef int tagged_count
    cdef int64_t size_min

    cdef object fresh(self, Field* field)
