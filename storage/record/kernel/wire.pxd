"""Reading and writing the integers and the record structure of the wire format, inlined wherever it is used.

Readers take a cursor and the end of what may be read, move the cursor past what they read, and return 0; on
anything else they return a reason (`MALFORMED_...`) and the cursor is meaningless. Nothing is read past the end.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef const uint8_t* Bytes

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define KFS_SWAP16(x) (x)
    #define KFS_SWAP32(x) (x)
    #define KFS_SWAP64(x) (x)
    #else
    #define KFS_SWAP16(x) __builtin_bswap16(x)
    #define KFS_SWAP32(x) __builtin_bswap32(x)
    #define KFS_SWAP64(x) __builtin_bswap64(x)
    #endif
    static inline uint16_t kfs_load16(const uint8_t *p) { uint16_t x; memcpy(&x, p, 2); return KFS_SWAP16(x); }
    static inline uint32_t kfs_load32(const uint8_t *p) { uint32_t x; memcpy(&x, p, 4); return KFS_SWAP32(x); }
    static inline uint64_t kfs_load64(const uint8_t *p) { uint64_t x; memcpy(&x, p, 8); return KFS_SWAP64(x); }
    static inline void kfs_store16(uint8_t *p, uint16_t x) { x = KFS_SWAP16(x); memcpy(p, &x, 2); }
    static inline void kfs_store32(uint8_t *p, uint32_t x) { x = KFS_SWAP32(x); memcpy(p, &x, 4); }
    static inline void kfs_store64(uint8_t *p, uint64_t x) { x = KFS_SWAP64(x); memcpy(p, &x, 8); }
    static inline int64_t kfs_add64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
    /* As the JVM computes it, in 32 wrapping bits: after 2^31-1 comes 0. */
    static inline int32_t kfs_sequence_after(int32_t sequence, int32_t steps) {
        uint32_t s = (uint32_t)sequence, n = (uint32_t)steps;
        if (sequence > (int32_t)(0x7FFFFFFFu - n)) return (int32_t)(n - (0x7FFFFFFFu - s) - 1u);
        return (int32_t)(s + n);
    }
    /* A varint of one or two bytes, both of which are there; NULL if it is longer. */
    static inline const uint8_t *kfs_short_varint(const uint8_t *at, int32_t *value) {
        uint32_t raw = at[0];
        if (raw < 128) {
            *value = (int32_t)((raw >> 1) ^ (0u - (raw & 1)));
            return at + 1;
        }
        if (at[1] > 127) return NULL;
        raw = (raw & 127) | (uint32_t)at[1] << 7;
        *value = (int32_t)((raw >> 1) ^ (0u - (raw & 1)));
        return at + 2;
    }
    static inline int kfs_varint_size(int64_t n) {
        if ((uint64_t)n + 64 < 128) return 1;
        uint64_t z = ((uint64_t)n << 1) ^ (uint64_t)(n >> 63);
        return (70 - __builtin_clzll(z | 1)) / 7;
    }
    """
    uint16_t load16 "kfs_load16"(Bytes source) noexcept nogil
    uint32_t load32 "kfs_load32"(Bytes source) noexcept nogil
    uint64_t load64 "kfs_load64"(Bytes source) noexcept nogil
    void store16 "kfs_store16"(uint8_t* target, uint16_t value) noexcept nogil
    void store32 "kfs_store32"(uint8_t* target, uint32_t value) noexcept nogil
    void store64 "kfs_store64"(uint8_t* target, uint64_t value) noexcept nogil
    int64_t add64 "kfs_add64"(int64_t a, int64_t b) noexcept nogil
    int32_t sequence_after "kfs_sequence_after"(int32_t sequence, int32_t steps) noexcept nogil
    Bytes short_varint "kfs_short_varint"(Bytes at, int32_t* value) noexcept nogil
    int varint_size "kfs_varint_size"(int64_t value) noexcept nogil
    # Cython defines this macro. The compiler keeps the code of such a branch away from the usual way.
    bint unlikely(bint condition) noexcept nogil

# Where the fields of a v2 batch header lie; `storage.record.layout` says what each means.
cdef enum:
    LENGTH_AT = 8
    LOG_OVERHEAD = 12
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    COUNT_AT = 57
    HEADER_SIZE = 61

# The attribute bits, and what stands for none.
cdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    NO_TIMESTAMP = -1
    NO_LEADER_EPOCH = -1
    NO_PRODUCER = -1
    NO_SEQUENCE = -1
    NULL_SIZE = -1

cdef enum:
    MALFORMED_VARINT = 1
    MALFORMED_LENGTH = 2
    MALFORMED_KEY = 3
    MALFORMED_VALUE = 4
    MALFORMED_HEADERS = 5
    MALFORMED_REST = 6

cdef enum:
    USUAL_SIZE = 16  # the head of a usual record is shorter

# One encoded record, as places in memory. A size below 0 is null.
cdef struct Span:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size
    int32_t value_size
    int32_t header_count
    Bytes key
    Bytes value
    Bytes headers
    Bytes end


cdef inline int read_varint32(Bytes* cursor, Bytes end, int32_t* value) noexcept nogil:
    """At most five bytes; bits above the 32nd are dropped, as the JVM drops them."""
    cdef Bytes at = cursor[0]
    cdef uint32_t byte, raw
    cdef int shift = 7
    if at >= end:
        return MALFORMED_VARINT
    byte = at[0]
    at += 1
    raw = byte & 127
    while byte & 128:
        if at >= end or shift > 28:
            return MALFORMED_VARINT
        byte = at[0]
        at += 1
        raw |= (byte & 127) << shift
        shift += 7
    cursor[0] = at
    value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return 0


cdef inline int read_varint64(Bytes* cursor, Bytes end, int64_t* value) noexcept nogil:
    """At most ten bytes; bits above the 64th are dropped, as the JVM drops them."""
    cdef Bytes at = cursor[0]
    cdef uint64_t byte, raw
    cdef int shift = 7
    if at >= end:
        return MALFORMED_VARINT
    byte = at[0]
    at += 1
    raw = byte & 127
    while byte & 128:
        if at >= end or shift > 63:
            return MALFORMED_VARINT
        byte = at[0]
        at += 1
        raw |= (byte & 127) << shift
        shift += 7
    cursor[0] = at
    value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return 0


cdef inline uint8_t* write_varint(uint8_t* target, int64_t value) noexcept nogil:
    """Write the shortest form and return the place after it; the caller has `varint_size(value)` bytes of room."""
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw > 127:
        target[0] = <uint8_t>(raw | 128)
        target += 1
        raw >>= 7
    target[0] = <uint8_t>raw
    return target + 1


cdef inline int read_header(
    Bytes* cursor, Bytes end, Bytes* key, int32_t* key_size, Bytes* value, int32_t* value_size
) noexcept nogil:
    """One header of a record; a value size below 0 is null."""
    if read_varint32(cursor, end, key_size):
        return MALFORMED_VARINT
    if key_size[0] < 0 or key_size[0] > end - cursor[0]:
        return MALFORMED_HEADERS
    key[0] = cursor[0]
    cursor[0] += key_size[0]
    if read_varint32(cursor, end, value_size):
        return MALFORMED_VARINT
    value[0] = cursor[0]
    if value_size[0] > 0:
        if value_size[0] > end - cursor[0]:
            return MALFORMED_HEADERS
        cursor[0] += value_size[0]
    return 0


cdef inline int check_headers(Span* span) noexcept nogil:
    """Return 0 if the headers fill the rest of the record exactly, or else the reason."""
    cdef Bytes at = span.headers
    cdef Bytes key
    cdef Bytes value
    cdef int32_t index, key_size, value_size
    cdef int reason
    if span.header_count < 0 or span.header_count > span.end - at:
        return MALFORMED_HEADERS
    for index in range(span.header_count):
        reason = read_header(&at, span.end, &key, &key_size, &value, &value_size)
        if reason:
            return reason
    return 0 if at == span.end else MALFORMED_REST


cdef inline int read_checked_record(Bytes* cursor, Bytes end, Span* span) noexcept nogil:
    """One record of any form whose headers, of which there may be millions, were checked before."""
    cdef Bytes at = cursor[0]
    cdef int32_t body_size
    if read_varint32(&at, end, &body_size):
        return MALFORMED_VARINT
    if body_size < 1 or body_size > end - at:
        return MALFORMED_LENGTH
    span.end = at + body_size
    at += 1  # the record's attributes: none is defined
    if read_varint64(&at, span.end, &span.timestamp_delta):
        return MALFORMED_VARINT
    if read_varint32(&at, span.end, &span.offset_delta):
        return MALFORMED_VARINT
    if read_varint32(&at, span.end, &span.key_size):
        return MALFORMED_VARINT
    span.key = at
    if span.key_size > 0:
        if span.key_size > span.end - at:
            return MALFORMED_KEY
        at += span.key_size
    if read_varint32(&at, span.end, &span.value_size):
        return MALFORMED_VARINT
    span.value = at
    if span.value_size > 0:
        if span.value_size > span.end - at:
            return MALFORMED_VALUE
        at += span.value_size
    if read_varint32(&at, span.end, &span.header_count):
        return MALFORMED_VARINT
    span.headers = at
    cursor[0] = span.end
    return 0


cdef inline int read_any_record(Bytes* cursor, Bytes end, Span* span) noexcept nogil:
    """One record of any form, checked to its last byte."""
    cdef int reason = read_checked_record(cursor, end, span)
    if reason:
        return reason
    if span.header_count == 0:
        return 0 if span.headers == span.end else MALFORMED_REST
    return check_headers(span)


cdef inline int read_record(Bytes* cursor, Bytes end, Span* span) noexcept nogil:
    """One record, checked to its last byte; the usual one, with a short head and no headers, by a short way."""
    cdef Bytes at = cursor[0]
    cdef Bytes record_end
    cdef int32_t size = 0, timestamp_delta = 0
    if unlikely(end - at < USUAL_SIZE):
        return read_any_record(cursor, end, span)
    at = short_varint(at, &size)
    # Two bytes after the record may be read, so that its varints need no bounds of their own.
    if unlikely(at == NULL or size < 1 or size > end - at - 2):
        return read_any_record(cursor, end, span)
    record_end = at + size
    at = short_varint(at + 1, &timestamp_delta)
    if at != NULL:
        at = short_varint(at, &span.offset_delta)
    if at != NULL:
        at = short_varint(at, &span.key_size)
    if unlikely(at == NULL or span.key_size > record_end - at):
        return read_any_record(cursor, end, span)
    span.key = at
    at = short_varint(at + max(span.key_size, 0), &span.value_size)
    # The value must end right before the last byte, and that be a count of no headers.
    if unlikely(at == NULL or max(span.value_size, 0) != record_end - 1 - at or record_end[-1] != 0):
        return read_any_record(cursor, end, span)
    span.timestamp_delta = timestamp_delta
    span.value = at
    span.header_count = 0
    span.headers = record_end
    span.end = record_end
    cursor[0] = record_end
    return 0
