"""What is wanted of a record, and the places of those that have it: 16 bytes each, the batch's position and the offset."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from storage.record.kernel cimport wire

cdef enum:
    PLACE_BYTES = 16
    NULL_WANTED = -1
    ANY = -2
    NOT_RECORDS = -1

# A size is that of the bytes wanted, or one of the two above.
cdef struct Wanted:
    int64_t first_offset
    int64_t end_offset
    int64_t value_bytes_min  # a null has -1
    int64_t value_bytes_max
    int64_t producer_id
    bint of_any_producer
    bint of_transactions
    int64_t key_size
    wire.Bytes key
    int64_t header_name_size
    wire.Bytes header_name
    int64_t header_value_size
    wire.Bytes header_value


cdef class Criteria:
    cdef Wanted wanted
    cdef tuple owners


cdef inline int64_t places_room(int64_t records_bytes) noexcept nogil:
    """More than the bytes that the places of records take which take so many bytes: a record takes at least seven."""
    return 3 * records_bytes + PLACE_BYTES


cdef inline bint may_have(wire.Bytes header, const Wanted* wanted) noexcept nogil:
    """False if a batch's header shows that it has none of the wanted records."""
    cdef int64_t base_offset = <int64_t>wire.load64(header)
    if base_offset >= wanted.end_offset:
        return False
    if wire.add64(base_offset, <int32_t>wire.load32(header + wire.LAST_OFFSET_DELTA_AT)) < wanted.first_offset:
        return False
    if wanted.of_transactions and not wire.load16(header + wire.ATTRIBUTES_AT) & wire.TRANSACTIONAL_BIT:
        return False
    return wanted.of_any_producer or <int64_t>wire.load64(header + wire.PRODUCER_ID_AT) == wanted.producer_id


cdef inline bint is_wanted(wire.Bytes found, int64_t size, wire.Bytes wanted, int64_t wanted_size) noexcept nogil:
    if wanted_size == ANY:
        return True
    if size < 0 or wanted_size < 0:
        return size < 0 and wanted_size < 0
    return size == wanted_size and memcmp(found, wanted, size) == 0


cdef inline bint has_header(wire.Span* span, const Wanted* wanted) noexcept nogil:
    """True if one of the headers of a record, which was checked, has the wanted name and value."""
    cdef wire.Bytes at = span.headers
    cdef wire.Bytes name = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, name_size = 0, value_size = 0
    for index in range(span.header_count):
        wire.read_header(&at, span.end, &name, &name_size, &value, &value_size)
        if is_wanted(name, name_size, wanted.header_name, wanted.header_name_size):
            if is_wanted(value, value_size, wanted.header_value, wanted.header_value_size):
                return True
    return False


cdef inline bint matches(wire.Span* span, const Wanted* wanted) noexcept nogil:
    cdef int64_t value_size = max(span.value_size, -1)
    if not wanted.value_bytes_min <= value_size <= wanted.value_bytes_max:
        return False
    if not is_wanted(span.key, span.key_size, wanted.key, wanted.key_size):
        return False
    return wanted.header_name_size == ANY or has_header(span, wanted)


cdef inline int64_t put_places(
    wire.Bytes header, wire.Bytes at, wire.Bytes end, int64_t position, const Wanted* wanted, uint8_t* target
) noexcept nogil:
    """The bytes of the places of a batch's wanted records, which are written unless `target` is NULL; or NOT_RECORDS.

    The records are those between `at` and `end`, all of which are checked.
    """
    cdef int64_t base_offset = <int64_t>wire.load64(header)
    cdef int64_t count = <int32_t>wire.load32(header + wire.COUNT_AT)
    cdef int64_t index, offset, total = 0
    cdef wire.Span span
    for index in range(count):
        if wire.read_record(&at, end, &span):
            return NOT_RECORDS
        if not matches(&span, wanted):
            continue
        offset = wire.add64(base_offset, span.offset_delta)
        if not wanted.first_offset <= offset < wanted.end_offset:
            continue
        if target != NULL:
            memcpy(target + total, &position, 8)
            memcpy(target + total + 8, &offset, 8)
        total += PLACE_BYTES
    return total if at == end else NOT_RECORDS
