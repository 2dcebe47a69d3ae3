"""Rows of Arrow columns in the making: where the next one goes, whether there is room, and writing it."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from storage.record.kernel cimport text, wire

cdef enum:
    SHORT = 32  # this many bytes are copied in less time than it takes to look at how many there are

# A column of byte strings; its pointers are NULL when it is not wanted. The data has SHORT bytes beyond its room.
cdef struct Strings:
    int32_t* ends
    uint8_t* data
    uint8_t* validity
    int64_t used
    int64_t room
    int64_t nulls

# The columns being filled, NULL where not wanted.
cdef struct Chunk:
    int64_t rows
    int64_t row_room
    int64_t* offset
    int64_t* timestamp
    int32_t* sequence
    Strings key
    Strings value
    int64_t headers
    int64_t header_room
    int32_t* header_ends
    Strings header_key
    Strings header_value
    int32_t* timestamp_type
    int64_t* producer_id
    int16_t* producer_epoch
    int32_t* leader_epoch
    int64_t* position
    int8_t* codec
    uint8_t* is_transactional
    uint8_t* is_control

# How much room something takes.
cdef struct RoomNeeded:
    int64_t rows
    int64_t key_bytes
    int64_t value_bytes
    int64_t headers
    int64_t header_key_bytes
    int64_t header_value_bytes


cdef inline RoomNeeded room_needed(Chunk* chunk, wire.Span* span) noexcept nogil:
    """The room that a record needs in the columns that are wanted; it has been checked to its last byte."""
    cdef wire.Bytes at = span.headers
    cdef wire.Bytes key = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, key_size = 0, value_size = 0
    cdef RoomNeeded needed
    memset(&needed, 0, sizeof(RoomNeeded))
    needed.rows = 1
    if chunk.key.ends != NULL and span.key_size > 0:
        needed.key_bytes = span.key_size
    if chunk.value.ends != NULL and span.value_size > 0:
        needed.value_bytes = span.value_size
    if chunk.header_ends != NULL:
        needed.headers = span.header_count
        for index in range(span.header_count):
            wire.read_header(&at, span.end, &key, &key_size, &value, &value_size)
            needed.header_key_bytes += text.text_size(key, key_size)
            needed.header_value_bytes += value_size if value_size > 0 else 0
    return needed


cdef inline bint has_room(Chunk* chunk, wire.Span* span) noexcept nogil:
    cdef RoomNeeded needed
    # A size below 0 stands for null, takes no room, and may be added as it is.
    if (
        chunk.rows == chunk.row_room
        or (chunk.key.ends != NULL and chunk.key.used + span.key_size > chunk.key.room)
        or (chunk.value.ends != NULL and chunk.value.used + span.value_size > chunk.value.room)
    ):
        return False
    if chunk.header_ends == NULL or span.header_count == 0:
        return True
    needed = room_needed(chunk, span)
    return (
        chunk.headers + needed.headers <= chunk.header_room
        and chunk.header_key.used + needed.header_key_bytes <= chunk.header_key.room
        and chunk.header_value.used + needed.header_value_bytes <= chunk.header_value.room
    )


cdef inline bint is_outgrown_by(Chunk* chunk, int64_t data_bytes) noexcept nogil:
    """True if records data that is smaller than what the chunk holds is likely not to fit beside it."""
    cdef int64_t used = chunk.key.used + chunk.value.used
    return data_bytes <= used and data_bytes > chunk.key.room + chunk.value.room - used


cdef inline void put(Strings* column, int64_t row, wire.Bytes source, int32_t size, wire.Bytes limit) noexcept nogil:
    """Write one byte string, or null; the memory around `source` may be read up to `limit`."""
    if size > 0:
        if size <= SHORT and limit - source >= SHORT:
            memcpy(column.data + column.used, source, SHORT)
        else:
            memcpy(column.data + column.used, source, size)
        column.used += size
    elif size < 0:
        column.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
        column.nulls += 1
    column.ends[row + 1] = <int32_t>column.used


cdef inline void put_headers(Chunk* chunk, wire.Span* span, wire.Bytes limit) noexcept nogil:
    cdef wire.Bytes at = span.headers
    cdef wire.Bytes key = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, key_size = 0, value_size = 0
    cdef Strings* keys = &chunk.header_key
    for index in range(span.header_count):
        wire.read_header(&at, span.end, &key, &key_size, &value, &value_size)
        keys.used += text.write_text(keys.data + keys.used, key, key_size)
        keys.ends[chunk.headers + 1] = <int32_t>keys.used
        put(&chunk.header_value, chunk.headers, value, value_size, limit)
        chunk.headers += 1


cdef inline void put_record(
    Chunk* chunk, wire.Span* span, int64_t offset, int64_t timestamp, int32_t sequence, wire.Bytes limit
) noexcept nogil:
    """Write a row for which there is room, except for what is the same in all of its batch."""
    cdef int64_t row = chunk.rows
    if chunk.offset != NULL:
        chunk.offset[row] = offset
    if chunk.timestamp != NULL:
        chunk.timestamp[row] = timestamp
    if chunk.sequence != NULL:
        chunk.sequence[row] = sequence
    if chunk.key.ends != NULL:
        put(&chunk.key, row, span.key, span.key_size, limit)
    if chunk.value.ends != NULL:
        put(&chunk.value, row, span.value, span.value_size, limit)
    if chunk.header_ends != NULL:
        if span.header_count:
            put_headers(chunk, span, limit)
        chunk.header_ends[row + 1] = <int32_t>chunk.headers
    chunk.rows += 1
