# cython: language_level=3, auto_pickle=False, autotestdict=False
"""CRC-32C, the checksum of v2 batches and producer snapshots."""

from libc.stdint cimport uint8_t, uint32_t

from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef extern from "crc32c.h":
    void kfs_crc_prepare() noexcept nogil
    uint32_t kfs_crc32c(const uint8_t* data, size_t size) noexcept nogil
    uint32_t kfs_crc_software(uint32_t start, const uint8_t* data, size_t size) noexcept nogil

kfs_crc_prepare()


cdef uint32_t checksum(const uint8_t* data, size_t size) noexcept nogil:
    return kfs_crc32c(data, size)


def crc32c(source):
    """The CRC-32C of a whole buffer."""
    cdef PinnedBuffer buffer = PinnedBuffer(source)
    cdef uint32_t result
    with nogil:
        result = kfs_crc32c(buffer.data, buffer.size)
    return result


def crc32c_portable(source):
    """The same without the processor's instruction: what machines that lack it compute."""
    cdef PinnedBuffer buffer = PinnedBuffer(source)
    cdef uint32_t result
    with nogil:
        result = kfs_crc_software(0xFFFFFFFF, buffer.data, buffer.size)
    return result ^ 0xFFFFFFFF
