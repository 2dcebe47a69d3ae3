"""Runs of v2 batches that lie one after another in one buffer: which batches belong to one, and how far it has come."""

from libc.stdint cimport int32_t, int64_t

from storage.record.kernel cimport wire
from storage.record.kernel.crc32c cimport checksum

# How far a run came: through so many bytes of the log, the last batch of which begins at `last_at`.
cdef struct Passed:
    int64_t log_bytes
    int64_t last_at
    int64_t line_bytes

cdef struct Bounds:
    int64_t left  # bytes of the log
    int64_t end_offset
    int64_t line_bytes_max  # with which a run ends
    bint with_transactions

# The header of the next batch of a run.
cdef struct Header:
    int64_t size
    int32_t count
    int codec
    bint has_lines


cdef inline bint read_header(wire.Bytes data, int64_t left, const Bounds* bounds, Header* header) noexcept nogil:
    """Read the header of a batch; false unless the batch may belong to the run."""
    cdef int attributes
    if left < wire.HEADER_SIZE:
        return False
    header.size = <int64_t><int32_t>wire.load32(data + wire.LENGTH_AT) + wire.LOG_OVERHEAD
    if header.size < wire.HEADER_SIZE or header.size > left or data[wire.MAGIC_AT] != 2:
        return False
    attributes = wire.load16(data + wire.ATTRIBUTES_AT)
    if attributes & wire.TRANSACTIONAL_BIT and not bounds.with_transactions:
        return False
    if <int64_t>wire.load64(data) >= bounds.end_offset:
        return False
    header.codec = attributes & wire.CODEC_MASK
    header.count = <int32_t>wire.load32(data + wire.COUNT_AT)
    header.has_lines = header.count > 0 and not attributes & wire.CONTROL_BIT
    return header.count >= 0


cdef inline bint is_sound(wire.Bytes data, int64_t size) noexcept nogil:
    return wire.load32(data + wire.CRC_AT) == checksum(data + wire.ATTRIBUTES_AT, size - wire.ATTRIBUTES_AT)
