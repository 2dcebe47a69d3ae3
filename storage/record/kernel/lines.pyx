# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Lines of text -> encoded records, one a line. The meaning of a line is left to the caller."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcpy

from storage.errors import RecordTooLargeError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.records_data cimport (
    RecordsData,
    new_records_data,
    whole,
)

cdef enum:
    NEWLINE = 10
    FIXED_BYTES = 4  # of a record's body: attributes, timestamp delta, null key, number of headers

# How far the encoding of a block has come.
cdef struct Progress:
    wire.Bytes source  # the next line, or what follows the bytes begun
    wire.Bytes end  # of the block
    wire.Bytes begun  # the next line's beginning, which lies elsewhere
    int64_t begun_bytes
    uint8_t* at  # the next record
    uint8_t* limit  # of the room for it
    int32_t count
    int64_t needed  # for the record that there is no room for


cdef bint write_lines(Progress* progress, bint include_last) noexcept nogil:
    """Write line after line; whether it ended at one that there is no room for."""
    cdef wire.Bytes newline = NULL
    cdef uint8_t* at = progress.at
    cdef int64_t body, value_bytes, rest_bytes
    while progress.source < progress.end or progress.begun_bytes:
        if progress.source < progress.end:
            newline = <wire.Bytes>memchr(progress.source, NEWLINE, progress.end - progress.source)
        if newline == NULL:
            if not include_last:
                break
            newline = progress.end
        rest_bytes = newline - progress.source
        value_bytes = progress.begun_bytes + rest_bytes
        body = FIXED_BYTES + wire.varint_size(progress.count) + wire.varint_size(value_bytes) + value_bytes
        progress.needed = wire.varint_size(body) + body
        if progress.needed > progress.limit - at:
            progress.at = at
            return True
        at = wire.write_varint(at, body)
        at[0] = at[1] = 0  # the record's attributes, and the distance from the batch's timestamp
        at = wire.write_varint(at + 2, progress.count)
        at = wire.write_varint(at, wire.NULL_SIZE)  # of the key
        at = wire.write_varint(at, value_bytes)
        if progress.begun_bytes:
            memcpy(at, progress.begun, progress.begun_bytes)
            at += progress.begun_bytes
            progress.begun_bytes = 0
        memcpy(at, progress.source, rest_bytes)
        at += rest_bytes
        at[0] = 0  # headers
        at += 1
        progress.count += 1
        progress.source = newline + 1 if newline < progress.end else newline
    progress.at = at
    return False


def encode_lines(block, *, timestamp, max_bytes, start=0, include_last=False, begun=b""):
    """Line after line from `start`, until the next would make the batch exceed `max_bytes`; at least one is taken.

    A line is a record's value, without its newline; it has the timestamp, a null key and no headers. What follows
    the last newline is a line only if `include_last` says so. The first line begins with the bytes `begun`, which are
    before the block and not looked into.
    """
    cdef RecordsData records_data = new_records_data(max_bytes)
    cdef PinnedBuffer buffer = PinnedBuffer(block)
    cdef PinnedBuffer before = PinnedBuffer(begun)
    cdef Py_ssize_t first = whole(start, "start", 0, buffer.size)
    cdef bint last_too = include_last
    cdef bint unfinished
    cdef int64_t done
    cdef Progress progress
    records_data.base_timestamp = whole(timestamp, "timestamp", wire.NO_TIMESTAMP, INT64_MAX)
    progress.source = buffer.data + first
    progress.end = buffer.data + buffer.size
    progress.begun = before.data
    progress.begun_bytes = before.size
    progress.at = records_data.start + wire.HEADER_SIZE
    progress.limit = records_data.limit
    progress.count = 0
    while True:
        if buffer.size < limits.UNLOCKED_BYTES_MIN:
            unfinished = write_lines(&progress, last_too)
        else:
            with nogil:
                unfinished = write_lines(&progress, last_too)
        records_data.count = progress.count
        records_data.stop = progress.source - buffer.data
        if not unfinished:
            break
        done = records_data.stop - first + progress.needed
        if not records_data.make_room(&progress.at, progress.needed, done, buffer.size - first):
            if records_data.count == 0:
                raise RecordTooLargeError(f"the line at byte {first} does not fit into a batch")
            break
        progress.limit = records_data.limit
    records_data.finish(progress.at)
    if records_data.count:
        records_data.min_timestamp = records_data.max_timestamp = records_data.base_timestamp
    records_data.keyless = records_data.count
    return records_data
