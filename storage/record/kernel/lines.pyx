# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Lines of text -> encoded records, one a line. The meaning of a line is left to the caller."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memchr

from storage.errors import RecordTooLargeError
from storage.record.kernel cimport wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.records_data cimport (
    Draft,
    RecordsData,
    body_size,
    new_records_data,
    whole,
    write_draft,
)

cdef enum:
    NEWLINE = 10

# How far the encoding of a block has come.
cdef struct Progress:
    wire.Bytes source  # the next line
    wire.Bytes end  # of the block
    uint8_t* at  # the next record
    uint8_t* limit  # of the room for it
    int32_t count
    int64_t needed  # for the record that there is no room for


cdef bint write_lines(Progress* progress, bint include_last) noexcept nogil:
    """Write line after line; whether it ended at one that there is no room for."""
    cdef Draft draft
    cdef wire.Bytes newline
    cdef int64_t body
    draft.timestamp_delta = draft.header_count = draft.headers_size = 0
    draft.key_size = wire.NULL_SIZE
    draft.key = NULL
    while progress.source < progress.end:
        newline = <wire.Bytes>memchr(progress.source, NEWLINE, progress.end - progress.source)
        if newline == NULL:
            if not include_last:
                return False
            newline = progress.end
        draft.offset_delta = progress.count
        draft.value = progress.source
        draft.value_size = newline - progress.source
        body = body_size(&draft)
        progress.needed = wire.varint_size(body) + body
        if progress.needed > progress.limit - progress.at:
            return True
        progress.at = write_draft(progress.at, body, &draft)
        progress.count += 1
        progress.source = newline + 1 if newline < progress.end else newline
    return False


def encode_lines(block, *, timestamp, max_bytes, start=0, include_last=False):
    """Line after line from `start`, until the next would make the batch exceed `max_bytes`; at least one is taken.

    A line is a record's value, without its newline; it has the timestamp, a null key and no headers. What follows
    the last newline is a line only if `include_last` says so.
    """
    cdef RecordsData records_data = new_records_data(max_bytes)
    cdef PinnedBuffer buffer = PinnedBuffer(block)
    cdef Py_ssize_t first = whole(start, "start", 0, buffer.size)
    cdef bint last_too = include_last
    cdef bint unfinished
    cdef int64_t done
    cdef Progress progress
    records_data.base_timestamp = whole(timestamp, "timestamp", wire.NO_TIMESTAMP, INT64_MAX)
    progress.source = buffer.data + first
    progress.end = buffer.data + buffer.size
    progress.at = records_data.start + wire.HEADER_SIZE
    progress.limit = records_data.limit
    progress.count = 0
    while True:
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
