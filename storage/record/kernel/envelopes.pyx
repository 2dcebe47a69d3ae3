# cython: language_level=3, auto_pickle=False, autotestdict=False
"""The records of a batch as JSON, an object and a line each: offset, timestamp and its type, key, value and headers.

The objects begin with what the caller gives, which says whose records they are. A key, value or header name that is
not UTF-8 has `_base64` after its member's name and is base64; null is null. Either the lines are written or only their
bytes are counted. What of a log is visible is left to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport json_text, limits, wire
from storage.record.kernel.batch cimport fetch_ahead
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.runs cimport Bounds, Header, Passed, is_sound, read_header
from storage.record.kernel.walk cimport BatchFrame
from storage.record.kernel.writing cimport number_size, put, put_number, shortened

cdef enum:
    DAMAGED = -1
    # The names of a record's members and of a header's, with all that stands between them, each as `put_line` has it.
    LINE_NAMES = 9 + 13 + 30 + 4 + 7 + 12 + 3
    HEADER_NAMES = 5 + 7 + 1
    LINE_SLACK = 128  # more than what a line has between its beginning and its key, or between two strings
    LINE_ROOM = 104  # what a line without headers usually takes besides its beginning and its record
    LEAST_RECORD = 7
    LITTLE = 65536
    BASE64_NAME_END = 8  # _base64"

# The records that are still to be shown, and what is the same in the lines of all.
cdef struct Source:
    wire.Bytes at
    wire.Bytes end
    int64_t left
    int64_t base_offset
    int64_t base_timestamp
    bint with_append_time
    wire.Bytes beginning
    int64_t beginning_size


cdef inline int64_t timestamp_of(const Source* source, const wire.Span* span) noexcept nogil:
    if source.with_append_time:
        return source.base_timestamp
    return wire.add64(source.base_timestamp, span.timestamp_delta)


cdef inline int64_t member_size(wire.Bytes data, int64_t size, wire.Bytes readable) noexcept nogil:
    cdef int64_t text_size
    if size < 0:
        return 6
    text_size = json_text.text_size(data, size, readable)
    return 4 + text_size if text_size != json_text.NO_TEXT else 11 + json_text.base64_size(size)


cdef inline uint8_t* put_member(
    uint8_t* target, const uint8_t* limit, wire.Bytes data, int64_t size, wire.Bytes readable
) noexcept nogil:
    """Write a member from the end of its name on, or return NULL if there is no room for it."""
    cdef uint8_t* text
    cdef int hindrance
    if target > limit:
        return NULL
    if size < 0:
        return put(target, b'":null', 6)
    text = put(target, b'":"', 3)
    hindrance = json_text.put_text(&text, limit, data, size, readable)
    if hindrance == json_text.NO_ROOM and json_text.text_size(data, size, readable) != json_text.NO_TEXT:
        return NULL
    if hindrance:
        # Escapes before what is no text may have taken more room than the base64 of all.
        if json_text.base64_size(size) > limit - target:
            return NULL
        text = json_text.put_base64(put(target, b'_base64":"', 10), data, size)
    return put(text, b'"', 1)


cdef inline int64_t line_size(const Source* source, const wire.Span* span) noexcept nogil:
    cdef wire.Bytes at = span.headers
    cdef wire.Bytes name = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, name_size = 0, value_size = 0
    cdef int64_t total = source.beginning_size + LINE_NAMES + (3 if source.with_append_time else 0)
    total += number_size(wire.add64(source.base_offset, span.offset_delta)) + number_size(timestamp_of(source, span))
    total += member_size(span.key, span.key_size, source.end) + member_size(span.value, span.value_size, source.end)
    for index in range(span.header_count):
        # The record was checked to its last byte when it was read, so this cannot fail.
        wire.read_header(&at, span.end, &name, &name_size, &value, &value_size)
        total += HEADER_NAMES + (index > 0)
        total += member_size(name, name_size, source.end) + member_size(value, value_size, source.end)
    return total


cdef inline uint8_t* put_line(
    uint8_t* target, const uint8_t* limit, const Source* source, const wire.Span* span
) noexcept nogil:
    """Write a line, or return NULL if there is no room for it."""
    cdef wire.Bytes at = span.headers
    cdef wire.Bytes name = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, name_size = 0, value_size = 0
    if target > limit:
        return NULL
    target = put(put(target, source.beginning, source.beginning_size), b'"offset":', 9)
    target = put_number(target, wire.add64(source.base_offset, span.offset_delta))
    target = put_number(put(target, b',"timestamp":', 13), timestamp_of(source, span))
    if source.with_append_time:
        target = put(target, b',"timestampType":"LogAppendTime",', 33)
    else:
        target = put(target, b',"timestampType":"CreateTime",', 30)
    target = put_member(put(target, b'"key', 4), limit, span.key, span.key_size, source.end)
    if target == NULL:
        return NULL
    target = put_member(put(target, b',"value', 7), limit, span.value, span.value_size, source.end)
    if target == NULL:
        return NULL
    target = put(target, b',"headers":[', 12)
    for index in range(span.header_count):
        # The record was checked to its last byte when it was read, so this cannot fail.
        wire.read_header(&at, span.end, &name, &name_size, &value, &value_size)
        if index:
            target = put(target, b",", 1)
        target = put_member(put(target, b'{"key', 5), limit, name, name_size, source.end)
        if target == NULL:
            return NULL
        target = put_member(put(target, b',"value', 7), limit, value, value_size, source.end)
        if target == NULL:
            return NULL
        target = put(target, b"}", 1)
    return put(target, b"]}\n", 3)


cdef int64_t lines_size(Source source) noexcept nogil:
    """The bytes of the lines, or DAMAGED."""
    cdef wire.Span span
    cdef wire.Bytes start
    cdef int64_t total = 0
    while source.left > 0:
        start = source.at
        if wire.read_record(&source.at, source.end, &span):
            return DAMAGED
        # Of long records the processor itself does not see early enough where the next one begins.
        fetch_ahead(start, source.at)
        total += line_size(&source, &span)
        source.left -= 1
    return total if source.at == source.end else DAMAGED


cdef int64_t put_lines(uint8_t* start, const uint8_t* limit, Source* rest) noexcept nogil:
    """Write lines up to the limit or somewhat beyond it, and return their size; or DAMAGED. `rest` has no line yet."""
    # A copy, because the compiler must take every byte written for a change of what is pointed to.
    cdef Source source = rest[0]
    cdef uint8_t* target = start
    cdef uint8_t* next_target
    cdef wire.Bytes at
    cdef wire.Span span
    while source.left > 0:
        at = source.at
        if wire.read_record(&source.at, source.end, &span):
            return DAMAGED
        fetch_ahead(at, source.at)
        next_target = put_line(target, limit, &source, &span)
        if next_target == NULL:
            source.at = at
            break
        target = next_target
        source.left -= 1
    rest[0] = source
    return DAMAGED if source.left == 0 and source.at != source.end else target - start


cdef Source source_of(BatchFrame batch, PinnedBuffer records_data, bytes beginning):
    cdef Source source
    if batch.count < 0:
        raise damage(batch)
    source.at = records_data.data
    source.end = records_data.data + records_data.size
    source.left = batch.count
    source.with_append_time = batch.attributes & wire.LOG_APPEND_TIME_BIT != 0
    source.base_offset = batch.base_offset
    source.base_timestamp = batch.max_timestamp if source.with_append_time else batch.base_timestamp
    source.beginning = <wire.Bytes>PyBytes_AS_STRING(beginning)
    source.beginning_size = PyBytes_GET_SIZE(beginning)
    return source


cdef int64_t counted(const Source* source, BatchFrame batch) except -1:
    """The size of the lines that are still to be written."""
    cdef int64_t size
    if source.left == 0:
        return 0
    if source.end - source.at < limits.UNLOCKED_BYTES_MIN:
        size = lines_size(source[0])
    else:
        with nogil:
            size = lines_size(source[0])
    if size == DAMAGED:
        raise damage(batch)
    return size


cdef int64_t written(bytes lines, int64_t start, Source* source, BatchFrame batch) except -1:
    """Write lines from the position on, as far as there is room, and return their size."""
    cdef uint8_t* target = <uint8_t*>PyBytes_AS_STRING(lines) + start
    cdef const uint8_t* limit = target + (PyBytes_GET_SIZE(lines) - start - slack_of(source))
    cdef int64_t size
    if source.end - source.at < limits.UNLOCKED_BYTES_MIN:
        size = put_lines(target, limit, source)
    else:
        with nogil:
            size = put_lines(target, limit, source)
    if size == DAMAGED:
        raise damage(batch)
    return size


cdef void pass_plain(wire.Bytes data, const Bounds* bounds, Source source, Passed* passed) noexcept nogil:
    """Go on with a run up to its end, or to a compressed batch. `source` has the beginning of the lines."""
    cdef Header header
    cdef int64_t added
    while passed.line_bytes < bounds.line_bytes_max:
        if not read_header(data, bounds.left - passed.log_bytes, bounds, &header) or header.codec:
            return
        added = 0
        if header.has_lines:
            source.at = data + wire.HEADER_SIZE
            source.end = data + header.size
            source.left = header.count
            source.with_append_time = wire.load16(data + wire.ATTRIBUTES_AT) & wire.LOG_APPEND_TIME_BIT != 0
            source.base_offset = <int64_t>wire.load64(data)
            source.base_timestamp = <int64_t>wire.load64(
                data + (wire.MAX_TIMESTAMP_AT if source.with_append_time else wire.BASE_TIMESTAMP_AT)
            )
            added = lines_size(source)
            if added == DAMAGED:
                return
        # Summing what was just read is much faster than reading what was just summed.
        if not is_sound(data, header.size):
            return
        passed.last_at = passed.log_bytes
        passed.log_bytes += header.size
        passed.line_bytes += added
        data += header.size


cdef object damage(BatchFrame batch):
    return MalformedRecordsError(
        f"the batch does not hold exactly {batch.count} records", position=batch.position, offset=batch.base_offset
    )


cdef int64_t slack_of(const Source* source):
    """What may be written beyond the limit: a line up to its key, or what follows the text of a string."""
    return source.beginning_size + LINE_SLACK + json_text.SLACK


cdef int64_t usual_size(const Source* source):
    """What lines usually take at most; not so much as a count that may be wrong makes of little data."""
    cdef int64_t data_size = source.end - source.at
    cdef int64_t records = min(source.left, data_size // LEAST_RECORD)
    return min(data_size + data_size // 4 + records * (source.beginning_size + LINE_ROOM), 4 * data_size + LITTLE)


def envelope_lines(BatchFrame batch not None, records_data, bytes beginning not None):
    """Return the lines of a batch whose uncompressed records are in `records_data`, each beginning with `beginning`.

    Raises `MalformedRecordsError`. Lines that do not fit where they usually do are counted, and then have room for just
    that: it takes twice their size at most, however much escapes add. For records that turn out to be none it
    takes four times the data.
    """
    cdef PinnedBuffer buffer = PinnedBuffer(records_data)
    cdef Source source = source_of(batch, buffer, beginning)
    cdef int64_t size
    cdef bytes lines, more
    if source.left == 0:
        return b""
    lines = PyBytes_FromStringAndSize(NULL, usual_size(&source) + slack_of(&source))
    size = written(lines, 0, &source, batch)
    if source.left:
        more = PyBytes_FromStringAndSize(NULL, size + counted(&source, batch) + slack_of(&source))
        memcpy(PyBytes_AS_STRING(more), PyBytes_AS_STRING(lines), size)
        lines = more
        size += written(lines, size, &source, batch)
    if source.left:
        raise damage(batch)
    return shortened(lines, size)


def envelope_lines_size(BatchFrame batch not None, records_data, bytes beginning not None):
    """Return the size of the lines."""
    cdef PinnedBuffer buffer = PinnedBuffer(records_data)
    cdef Source source = source_of(batch, buffer, beginning)
    return counted(&source, batch)


def envelope_run_size(
    BatchFrame first not None,
    int64_t end_position,
    int64_t end_offset,
    bint with_transactions,
    bytes beginning not None,
    *,
    int64_t line_bytes_max=INT64_MAX,
):
    """Return the bytes of the log in the run from `first` on, those of them before its last batch, and its lines' size.

    The run is as that of `run_lines`, and ends before a compressed batch.
    """
    cdef Bounds bounds
    cdef Passed passed
    cdef Source source
    cdef wire.Bytes data
    bounds.left = min(first.buffer.size - first.start, end_position - first.position)
    bounds.end_offset = end_offset
    bounds.line_bytes_max = line_bytes_max
    bounds.with_transactions = with_transactions
    passed.log_bytes = passed.last_at = passed.line_bytes = 0
    source.beginning = <wire.Bytes>PyBytes_AS_STRING(beginning)
    source.beginning_size = PyBytes_GET_SIZE(beginning)
    data = first.data()
    with nogil:
        pass_plain(data, &bounds, source, &passed)
    return passed.log_bytes, passed.last_at, passed.line_bytes


json_text.make_base64()


def json_member(bytes beginning not None, bytes data, bytes colon not None):
    """Return a member whose name begins like this: with the bytes as text, or as base64, which the name ends with.

    Null bytes have a null, and text and base64 stand in quotes. What is large is written without Python's lock.
    """
    cdef wire.Bytes source = NULL
    cdef int64_t size = -1, text_size = 4
    cdef Py_ssize_t beginning_size = PyBytes_GET_SIZE(beginning), colon_size = PyBytes_GET_SIZE(colon)
    cdef bint is_text = True
    cdef bytes member
    cdef uint8_t* start
    cdef uint8_t* target
    if data is not None:
        source = <wire.Bytes>PyBytes_AS_STRING(data)
        size = PyBytes_GET_SIZE(data)
        if size < limits.UNLOCKED_BYTES_MIN:
            text_size = json_text.text_size(source, size, source + size)
        else:
            with nogil:
                text_size = json_text.text_size(source, size, source + size)
        is_text = text_size != json_text.NO_TEXT
        if not is_text:
            text_size = json_text.base64_size(size)
    member = PyBytes_FromStringAndSize(
        NULL, beginning_size + colon_size + text_size + BASE64_NAME_END + 2 + json_text.SLACK
    )
    start = <uint8_t*>PyBytes_AS_STRING(member)
    target = put(start, PyBytes_AS_STRING(beginning), beginning_size)
    target = put(target, b'"', 1) if is_text else put(target, b'_base64"', BASE64_NAME_END)
    target = put(target, PyBytes_AS_STRING(colon), colon_size)
    if data is None:
        target = put(target, b"null", 4)
    elif size < limits.UNLOCKED_BYTES_MIN:
        target = put_string(target, text_size, is_text, source, size)
    else:
        with nogil:
            target = put_string(target, text_size, is_text, source, size)
    return shortened(member, target - start)


cdef inline uint8_t* put_string(
    uint8_t* target, int64_t text_size, bint is_text, wire.Bytes data, int64_t size
) noexcept nogil:
    """Write the bytes in quotes: as text of that size, or as base64."""
    cdef uint8_t* text = put(target, b'"', 1)
    if is_text:
        json_text.put_text(&text, text + text_size, data, size, data + size)
    else:
        text = json_text.put_base64(text, data, size)
    return put(text, b'"', 1)
