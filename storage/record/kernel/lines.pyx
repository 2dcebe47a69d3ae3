# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Lines of text -> a section: every line a record, and what a line means left to others."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memchr

from storage.errors import RecordTooLargeError
from storage.record.kernel cimport wire
from storage.record.kernel.region cimport Region
from storage.record.kernel.section cimport (
    NO_TIMESTAMP,
    NULL_SIZE,
    Draft,
    Section,
    body_size,
    new_section,
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
    draft.key_size = NULL_SIZE
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
    cdef Section section = new_section(max_bytes)
    cdef Region region = Region(block)
    cdef Py_ssize_t first = whole(start, "start", 0, region.size)
    cdef bint last_too = include_last
    cdef bint unfinished
    cdef int64_t done
    cdef Progress progress
    section.base_timestamp = whole(timestamp, "timestamp", NO_TIMESTAMP, INT64_MAX)
    progress.source = region.data + first
    progress.end = region.data + region.size
    progress.at = section.start + wire.HEADER_SIZE
    progress.limit = section.limit
    progress.count = 0
    while True:
        with nogil:
            unfinished = write_lines(&progress, last_too)
        section.count = progress.count
        section.stop = progress.source - region.data
        if not unfinished:
            break
        done = section.stop - first + progress.needed
        if not section.make_room(&progress.at, progress.needed, done, region.size - first):
            if section.count == 0:
                raise RecordTooLargeError(f"the line at byte {first} does not fit into a batch")
            break
        progress.limit = section.limit
    section.finish(progress.at)
    section.max_timestamp = section.base_timestamp if section.count else NO_TIMESTAMP
    return section
