# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Records -> records data: rows of Python values, and records as they were decoded.

Whatever the rows hold, the result is exactly these records or `InvalidRecordError` naming the first
row that cannot be written.
"""

from cpython.buffer cimport PyObject_CheckBuffer
from cpython.bytes cimport PyBytes_FromObject
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from storage.errors import InvalidRecordError, RecordTooLargeError
from storage.record.kernel cimport wire
from storage.record.kernel.decode cimport Record
from storage.record.kernel.records_data cimport (
    Draft,
    RecordsData,
    body_size,
    count_record,
    new_records_data,
    whole,
    write_draft,
    write_piece,
)

# Through these only references are borrowed. Between looking at a row and having written it, nothing runs Python
# code or lets go of the lock, so whatever was borrowed is still there.
cdef extern from "Python.h":
    bint is_bytes "PyBytes_CheckExact"(PyObject* value) noexcept
    char* PyBytes_AS_STRING(PyObject* value) noexcept
    Py_ssize_t PyBytes_GET_SIZE(PyObject* value) noexcept
    bint is_int "PyLong_Check"(PyObject* value) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject* value, int* overflow) noexcept
    bint is_list "PyList_Check"(PyObject* value) noexcept
    bint is_tuple "PyTuple_Check"(PyObject* value) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject* value) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject* value, Py_ssize_t index) noexcept
    bint is_text "PyUnicode_Check"(PyObject* value) noexcept
    const char* utf8_of "PyUnicode_AsUTF8AndSize"(PyObject* value, Py_ssize_t* size) noexcept
    void PyErr_Clear() noexcept
    bint is_ascii "PyUnicode_IS_COMPACT_ASCII"(PyObject* value) noexcept
    char* PyUnicode_1BYTE_DATA(PyObject* value) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* value) noexcept
    object PySequence_Fast(object value, const char* message)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject* value) noexcept
    PyObject* PySequence_Fast_GET_ITEM(PyObject* value, Py_ssize_t index) noexcept
    object PyUnicode_AsEncodedString(object value, const char* encoding, const char* errors)

cdef enum:
    NOT_PLAIN = -2

# A row as found: its draft and what the draft does not hold.
cdef struct Row:
    Draft draft
    int64_t timestamp
    PyObject* headers


cdef inline int64_t wrapped_difference(int64_t timestamp, int64_t base) noexcept:
    """The delta from which a reader whose 64 bits wrap around gets the timestamp back, at any distance."""
    return <int64_t>(<uint64_t>timestamp - <uint64_t>base)


cdef inline int64_t read_piece(PyObject* piece, wire.Bytes* data) noexcept:
    """The size of a key or value, which may be null, and where it lies; `NOT_PLAIN` unless it is bytes or None."""
    if is_bytes(piece):
        data[0] = <wire.Bytes>PyBytes_AS_STRING(piece)
        return PyBytes_GET_SIZE(piece)
    data[0] = NULL
    return wire.NULL_SIZE if piece == <PyObject*>None else NOT_PLAIN


cdef inline wire.Bytes name_bytes(PyObject* name, Py_ssize_t* size) noexcept:
    """The bytes of a header's name, or NULL; a name that is bytes already was encoded by `plain_row`."""
    cdef wire.Bytes data
    if is_bytes(name):
        size[0] = PyBytes_GET_SIZE(name)
        return <wire.Bytes>PyBytes_AS_STRING(name)
    if not is_text(name):
        return NULL
    if is_ascii(name):  # then these are its bytes
        size[0] = PyUnicode_GET_LENGTH(name)
        return <wire.Bytes>PyUnicode_1BYTE_DATA(name)
    data = <wire.Bytes>utf8_of(name, size)
    if data == NULL:
        PyErr_Clear()
    return data


cdef bint measure_headers(Row* row, bint encoded) noexcept:
    """True if all headers are plain; the draft then has their number and their size."""
    cdef Py_ssize_t index, count = PySequence_Fast_GET_SIZE(row.headers)
    cdef Py_ssize_t name_size = 0
    cdef int64_t value_size, size = 0
    cdef PyObject* header
    cdef wire.Bytes value
    for index in range(count):
        header = PySequence_Fast_GET_ITEM(row.headers, index)
        if not is_tuple(header) or PyTuple_GET_SIZE(header) != 2:
            return False
        if is_bytes(PyTuple_GET_ITEM(header, 0)) != encoded:
            return False
        value_size = read_piece(PyTuple_GET_ITEM(header, 1), &value)
        if value_size == NOT_PLAIN or name_bytes(PyTuple_GET_ITEM(header, 0), &name_size) == NULL:
            return False
        size += wire.varint_size(name_size) + name_size + wire.varint_size(value_size) + max(value_size, 0)
    row.draft.header_count = count
    row.draft.headers_size = size
    return True


cdef uint8_t* write_headers(uint8_t* at, PyObject* headers) noexcept:
    """The headers that have just been measured."""
    cdef Py_ssize_t index, name_size = 0
    cdef int64_t value_size
    cdef PyObject* header
    cdef wire.Bytes name
    cdef wire.Bytes value
    for index in range(PySequence_Fast_GET_SIZE(headers)):
        header = PySequence_Fast_GET_ITEM(headers, index)
        name = name_bytes(PyTuple_GET_ITEM(header, 0), &name_size)
        at = write_piece(at, name, name_size)
        value_size = read_piece(PyTuple_GET_ITEM(header, 1), &value)
        at = write_piece(at, value, value_size)
    return at


cdef inline bint read_row(PyObject* source, Row* row, bint encoded) noexcept:
    """True if the row is plain: a tuple of int, bytes or None, bytes or None, and a list or tuple of headers.

    `row` then points into it, and is right until Python code runs. `encoded` says that header names are bytes.
    """
    cdef PyObject* piece
    cdef int overflow = 0
    if not is_tuple(source) or PyTuple_GET_SIZE(source) != 4:
        return False
    piece = PyTuple_GET_ITEM(source, 0)
    if not is_int(piece):
        return False
    row.timestamp = PyLong_AsLongLongAndOverflow(piece, &overflow)
    if row.timestamp < wire.NO_TIMESTAMP or overflow:
        return False
    row.draft.key_size = read_piece(PyTuple_GET_ITEM(source, 1), &row.draft.key)
    row.draft.value_size = read_piece(PyTuple_GET_ITEM(source, 2), &row.draft.value)
    if row.draft.key_size == NOT_PLAIN or row.draft.value_size == NOT_PLAIN:
        return False
    row.headers = PyTuple_GET_ITEM(source, 3)
    if not (is_list(row.headers) or is_tuple(row.headers)):
        return False
    row.draft.header_count = row.draft.headers_size = 0
    return PySequence_Fast_GET_SIZE(row.headers) == 0 or measure_headers(row, encoded)


cdef object plain_piece(object piece, Py_ssize_t index, str name):
    """The bytes of anything with the buffer protocol, or None."""
    if piece is None:
        return None
    if not PyObject_CheckBuffer(piece):
        raise InvalidRecordError(f"row {index}: the {name} must be bytes or None, not {type(piece).__name__}")
    try:
        return PyBytes_FromObject(piece)
    except (BufferError, TypeError, ValueError) as error:
        raise InvalidRecordError(f"row {index}: the {name} cannot be read: {error}") from error


cdef tuple plain_header(object header, Py_ssize_t index):
    """The header with its name as bytes: surrogates that stand for bytes become these again."""
    if not isinstance(header, tuple) or PyTuple_GET_SIZE(<PyObject*>header) != 2:
        raise InvalidRecordError(f"row {index}: a header must be a tuple of name and value")
    name = (<tuple>header)[0]
    if not isinstance(name, str):
        raise InvalidRecordError(f"row {index}: a header's name must be a str, not {type(name).__name__}")
    try:
        name = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRecordError(f"row {index}: a header's name has no bytes: {error}") from error
    return name, plain_piece((<tuple>header)[1], index, "header value")


cdef tuple plain_row(object source, Py_ssize_t index):
    """The same row made of exact types alone, with the names of its headers encoded."""
    cdef tuple row
    if not isinstance(source, tuple) or PyTuple_GET_SIZE(<PyObject*>source) != 4:
        raise InvalidRecordError(f"row {index} must be a tuple of timestamp, key, value and headers")
    row = <tuple>source
    whole(row[0], f"row {index}: the timestamp", wire.NO_TIMESTAMP, INT64_MAX)
    if not isinstance(row[3], (list, tuple)):
        raise InvalidRecordError(f"row {index}: the headers must be a list or tuple, not {type(row[3]).__name__}")
    return (
        row[0],
        plain_piece(row[1], index, "key"),
        plain_piece(row[2], index, "value"),
        tuple([plain_header(header, index) for header in row[3]]),
    )


def encode_rows(rows, *, max_bytes, start=0, base_timestamp=None):
    """Row after row from `start`, until the next would make the batch exceed `max_bytes`; at least one is taken.

    Offsets count from 0. Timestamps count from `base_timestamp`, or from the first row's.
    """
    cdef RecordsData records_data = new_records_data(max_bytes)
    cdef object source = PySequence_Fast(rows, "rows must be a sequence")
    cdef Py_ssize_t total = PySequence_Fast_GET_SIZE(<PyObject*>source)
    cdef Py_ssize_t first = whole(start, "start", 0, total)
    cdef Py_ssize_t index = first
    cdef uint8_t* at = records_data.start + wire.HEADER_SIZE
    cdef object held
    cdef Row row
    cdef int64_t body, needed
    cdef bint based = base_timestamp is not None
    if based:
        records_data.base_timestamp = whole(base_timestamp, "base_timestamp", wire.NO_TIMESTAMP, INT64_MAX)
    while index < PySequence_Fast_GET_SIZE(<PyObject*>source):
        held = <object>PySequence_Fast_GET_ITEM(<PyObject*>source, index)
        if not read_row(<PyObject*>held, &row, False):
            held = plain_row(held, index)  # which may run Python code, and change anything but what it returns
            read_row(<PyObject*>held, &row, True)
        if not based:
            records_data.base_timestamp = row.timestamp
            based = True
        row.draft.timestamp_delta = wrapped_difference(row.timestamp, records_data.base_timestamp)
        row.draft.offset_delta = records_data.count
        body = body_size(&row.draft)
        needed = wire.varint_size(body) + body
        if needed > records_data.limit - at and not records_data.make_room(
            &at, needed, index - first + 1, total - first
        ):
            if records_data.count == 0:
                raise RecordTooLargeError(f"row {index}: {needed} bytes do not fit into a batch")
            break
        at = write_draft(at, body, &row.draft)
        if row.draft.header_count:
            at = write_headers(at, row.headers)
        count_record(records_data, row.timestamp, row.draft.key_size)
        index += 1
    records_data.finish(at)
    records_data.stop = index
    return records_data


def encode_records(records, *, base_offset, base_timestamp=None):
    """All of these records, with the offsets, timestamps and headers they have.

    Their offsets must rise and lie within what a batch at `base_offset` can hold. Timestamps count from
    `base_timestamp`, or from the first record's.
    """
    cdef RecordsData records_data = new_records_data(INT64_MAX)
    cdef object source = PySequence_Fast(records, "records must be a sequence")
    cdef Py_ssize_t index, total = PySequence_Fast_GET_SIZE(<PyObject*>source)
    cdef int64_t base = whole(base_offset, "base_offset", 0, INT64_MAX)
    cdef uint8_t* at = records_data.start + wire.HEADER_SIZE
    cdef Record record
    cdef Draft draft
    cdef int64_t body, needed
    draft.offset_delta = -1
    if base_timestamp is not None:
        records_data.base_timestamp = whole(base_timestamp, "base_timestamp", INT64_MIN, INT64_MAX)
    for index in range(total):
        item = <object>PySequence_Fast_GET_ITEM(<PyObject*>source, index)
        if not isinstance(item, Record):
            raise InvalidRecordError(f"record {index} must be a Record, not {type(item).__name__}")
        record = <Record>item
        if record.offset < base or not draft.offset_delta < record.offset - base <= INT32_MAX:
            raise InvalidRecordError(
                f"record {index}: its offset does not rise within a batch at {base}", offset=record.offset
            )
        if index == 0:
            records_data.max_timestamp = record.timestamp
            if base_timestamp is None:
                records_data.base_timestamp = record.timestamp
        draft.timestamp_delta = wrapped_difference(record.timestamp, records_data.base_timestamp)
        draft.offset_delta = record.offset - base
        draft.key = record.key_at
        draft.key_size = max(record.key_size, wire.NULL_SIZE)
        draft.value = record.value_at
        draft.value_size = max(record.value_size, wire.NULL_SIZE)
        draft.header_count = record.header_count
        draft.headers_size = record.end_at - record.headers_at if record.header_count else 0
        body = body_size(&draft)
        needed = wire.varint_size(body) + body
        if needed > records_data.limit - at and not records_data.make_room(&at, needed, index + 1, total):
            raise InvalidRecordError(f"record {index}: {total} records do not fit into a batch", offset=record.offset)
        at = write_draft(at, body, &draft)
        if draft.headers_size:
            memcpy(at, record.headers_at, draft.headers_size)
            at += draft.headers_size
        count_record(records_data, record.timestamp, draft.key_size)
    records_data.finish(at)
    records_data.stop = total
    return records_data
