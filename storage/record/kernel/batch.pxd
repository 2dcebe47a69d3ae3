"""A v2 batch on its way into columns: what its header says of every record, and how far its records are read."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from storage.record.kernel cimport wire
from storage.record.kernel.chunk cimport Chunk, RoomNeeded, room_needed, has_room, put_record

cdef extern from *:
    """
    #include <stdint.h>
    /* Ask for the lines that lie AHEAD of these bytes, as far as that pays; any address may be asked for. */
    static inline void kfs_fetch_ahead(const uint8_t *from, const uint8_t *to) {
        enum { LINE = 64, AHEAD = 1024, LEAST = 512, MOST = 2048 };
        uintptr_t line = (uintptr_t)from + AHEAD;
        uintptr_t end = line + (to - from > MOST ? MOST : (uintptr_t)(to - from));
        if (to - from < LEAST) return;
        for (; line < end; line += LINE) __builtin_prefetch((const void *)line);
    }
    """
    void fetch_ahead "kfs_fetch_ahead"(wire.Bytes start, wire.Bytes end) noexcept nogil


# What comes of filling from a batch.
cdef enum:
    USED_UP = 0
    FULL = 1
    DAMAGED = 2

cdef struct Batch:
    wire.Bytes at
    wire.Bytes end
    int32_t left
    int64_t position
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t append_time
    int32_t base_sequence
    int32_t timestamp_type
    int64_t producer_id
    int16_t producer_epoch
    int32_t leader_epoch
    int8_t codec
    bint is_transactional
    bint is_control


cdef inline Batch read_batch(wire.Bytes data, int64_t position, wire.Bytes start, wire.Bytes end) noexcept nogil:
    """The batch with its header at `data` and its decompressed records from start to end; an empty one has none."""
    cdef Batch batch
    cdef int attributes = <int16_t>wire.load16(data + wire.ATTRIBUTES_AT)
    batch.left = <int32_t>wire.load32(data + wire.COUNT_AT)
    batch.at = start if batch.left else end
    batch.end = end
    batch.position = position
    batch.base_offset = <int64_t>wire.load64(data)
    batch.last_offset = wire.add64(batch.base_offset, <int32_t>wire.load32(data + wire.LAST_OFFSET_DELTA_AT))
    batch.base_timestamp = <int64_t>wire.load64(data + wire.BASE_TIMESTAMP_AT)
    batch.append_time = <int64_t>wire.load64(data + wire.MAX_TIMESTAMP_AT)
    batch.base_sequence = <int32_t>wire.load32(data + wire.BASE_SEQUENCE_AT)
    batch.timestamp_type = 1 if attributes & wire.LOG_APPEND_TIME_BIT else 0
    batch.producer_id = <int64_t>wire.load64(data + wire.PRODUCER_ID_AT)
    batch.producer_epoch = <int16_t>wire.load16(data + wire.PRODUCER_EPOCH_AT)
    batch.leader_epoch = <int32_t>wire.load32(data + wire.LEADER_EPOCH_AT)
    batch.codec = attributes & wire.CODEC_MASK
    batch.is_transactional = attributes & wire.TRANSACTIONAL_BIT != 0
    batch.is_control = attributes & wire.CONTROL_BIT != 0
    return batch


cdef inline bint parses(Batch batch) noexcept nogil:
    """True if the rest of the data is as many records as are left, to its last byte."""
    cdef wire.Span span
    while batch.left:
        if wire.read_record(&batch.at, batch.end, &span):
            return False
        batch.left -= 1
    return batch.at == batch.end


cdef inline int fill(
    Chunk* target, Batch* source, RoomNeeded* lacking, int64_t first_offset, int64_t last_offset
) noexcept nogil:
    """Write what is left of a batch, as far as there is room; when it is FULL, `lacking` is what one record needs."""
    # Copies, because the compiler must take every byte written to a column for a change of what is pointed to.
    cdef Chunk chunk = target[0]
    cdef Batch batch = source[0]
    cdef int64_t first_row = chunk.rows
    cdef int64_t offset, timestamp
    cdef int32_t sequence
    cdef wire.Span span
    cdef wire.Bytes at
    cdef int result = USED_UP
    while batch.left:
        at = batch.at
        if wire.read_record(&batch.at, batch.end, &span):
            result = DAMAGED
            break
        # Of long records the processor itself does not see early enough where the next one begins.
        fetch_ahead(at, batch.at)
        offset = wire.add64(batch.base_offset, span.offset_delta)
        if first_offset <= offset <= last_offset:
            if not has_room(&chunk, &span):
                lacking[0] = room_needed(&chunk, &span)
                batch.at = at
                result = FULL
                break
            timestamp = batch.append_time if batch.timestamp_type else wire.add64(batch.base_timestamp, span.timestamp_delta)
            sequence = wire.NO_SEQUENCE
            if batch.base_sequence >= 0:
                sequence = wire.sequence_after(batch.base_sequence, span.offset_delta)
            put_record(&chunk, &span, offset, timestamp, sequence, batch.end)
        batch.left -= 1
    if result == USED_UP and batch.at != batch.end:
        result = DAMAGED
    put_batch(&chunk, &batch, first_row)
    target[0] = chunk
    source[0] = batch
    return result


cdef inline void put_batch(Chunk* chunk, Batch* batch, int64_t first_row) noexcept nogil:
    """Write, for the rows from `first_row` on, what is the same in all of a batch."""
    cdef int64_t row
    if chunk.timestamp_type != NULL:
        for row in range(first_row, chunk.rows):
            chunk.timestamp_type[row] = batch.timestamp_type
    if chunk.producer_id != NULL:
        for row in range(first_row, chunk.rows):
            chunk.producer_id[row] = batch.producer_id
    if chunk.producer_epoch != NULL:
        for row in range(first_row, chunk.rows):
            chunk.producer_epoch[row] = batch.producer_epoch
    if chunk.leader_epoch != NULL:
        for row in range(first_row, chunk.rows):
            chunk.leader_epoch[row] = batch.leader_epoch
    if chunk.position != NULL:
        for row in range(first_row, chunk.rows):
            chunk.position[row] = batch.position
    if chunk.codec != NULL:
        for row in range(first_row, chunk.rows):
            chunk.codec[row] = batch.codec
    # Bits are 0 from the start.
    if chunk.is_transactional != NULL and batch.is_transactional:
        for row in range(first_row, chunk.rows):
            chunk.is_transactional[row >> 3] |= <uint8_t>(1 << (row & 7))
    if chunk.is_control != NULL and batch.is_control:
        for row in range(first_row, chunk.rows):
            chunk.is_control[row >> 3] |= <uint8_t>(1 << (row & 7))
