"""The limits that several modules of the kernel keep to."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define KFS_LARGEST_BATCH INT64_C(2147483659) /* its length field counts what follows the first 12 bytes */
    """
    const int64_t LARGEST_BATCH "KFS_LARGEST_BATCH"

cdef enum:
    UNLOCKED_BYTES_MIN = 32768  # below this, releasing the lock costs more than it gives others
