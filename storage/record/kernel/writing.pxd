"""Writing text into memory that has room for it: bytes and numbers, each of which gives the place after it."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    void Py_SET_SIZE(PyObject* value, Py_ssize_t size) noexcept

cdef extern from *:
    """
    #include <stdint.h>
    static const char kfs_pairs[201] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
        "99";
    static const uint64_t kfs_powers[20] = {
        0, UINT64_C(10), UINT64_C(100), UINT64_C(1000), UINT64_C(10000), UINT64_C(100000), UINT64_C(1000000),
        UINT64_C(10000000), UINT64_C(100000000), UINT64_C(1000000000), UINT64_C(10000000000),
        UINT64_C(100000000000), UINT64_C(1000000000000), UINT64_C(10000000000000), UINT64_C(100000000000000),
        UINT64_C(1000000000000000), UINT64_C(10000000000000000), UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000), UINT64_C(10000000000000000000)
    };
    /* How many digits a number has: 1233 / 4096 is a little more than the logarithm of 2. */
    static inline int kfs_digits(uint64_t number) {
        int least = (64 - __builtin_clzll(number | 1)) * 1233 >> 12;
        return least + (number >= kfs_powers[least]);
    }
    """
    const char* PAIRS "kfs_pairs"
    int digits_of "kfs_digits"(uint64_t number) noexcept nogil


cdef inline uint8_t* put(uint8_t* target, const void* source, size_t size) noexcept nogil:
    memcpy(target, source, size)
    return target + size


cdef inline int number_size(int64_t number) noexcept nogil:
    """The number of characters that `put_number` writes."""
    return digits_of(<uint64_t>number) if number >= 0 else 1 + digits_of(0 - <uint64_t>number)


cdef inline uint8_t* put_number(uint8_t* target, int64_t number) noexcept nogil:
    cdef uint64_t left = <uint64_t>number
    cdef uint64_t pair
    cdef uint8_t* at
    cdef uint8_t* end
    if number < 0:
        target[0] = c"-"
        target += 1
        left = 0 - left
    end = at = target + digits_of(left)
    while left >= 10:
        pair = left % 100
        left //= 100
        at -= 2
        memcpy(at, PAIRS + 2 * pair, 2)
    if at > target:
        target[0] = <uint8_t>(c"0" + left)
    return end


cdef inline bytes shortened(bytes data, Py_ssize_t size):
    """The first bytes of an object that nothing else refers to yet."""
    cdef Py_ssize_t capacity = PyBytes_GET_SIZE(data)
    if size == 0:
        return b""
    if capacity - size > capacity >> 2:
        return data[:size]
    # Large pieces of memory are given out and taken back without a system call only if they keep their size.
    Py_SET_SIZE(<PyObject*>data, size)
    PyBytes_AS_STRING(data)[size] = 0
    return data
