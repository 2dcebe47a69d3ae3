# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Reading a message by its schema: one pass, every length checked before it is used, nothing read past the end."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import uuid

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport wire
from storage.record.kernel.message_schema cimport (
    ARRAY,
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    STRING_SIZE_MAX,
    STRUCT,
    UINT16,
    UINT32,
    UUID,
    Field,
    Kind,
    MessageSchema,
)

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object instance, object name, object value) except -1

OBJECTS_MAX = 2_097_152
"""The most that one message may make: without it, the 8 MiB of a batch could become several hundred."""
UNKNOWN_TAGGED_FIELDS = "_unknownTaggedFields"
"""The name under which a structure keeps the tagged fields that its schema does not have: (tag, bytes) pairs."""

cdef object UUID_CLASS = uuid.UUID
cdef object IS_SAFE = uuid.SafeUUID.unknown
cdef int64_t objects_max = OBJECTS_MAX
cdef str unknown_name = UNKNOWN_TAGGED_FIELDS


cdef struct Cursor:
    wire.Bytes start
    wire.Bytes at
    wire.Bytes end
    int64_t objects_left


def read_message(MessageSchema schema not None, bytes data not None, Py_ssize_t position=0):
    """The fields of the message at a position, and the position after it.

    Fields that are absent have their defaults. Strings that are not UTF-8 keep their bytes as lone surrogates
    (`surrogateescape`). Raises `MalformedRecordsError` for bytes that are no such message; it is no larger, and takes
    no more memory, than its bytes and `OBJECTS_MAX` allow.
    """
    cdef Cursor cursor
    if position < 0 or position > PyBytes_GET_SIZE(data):
        raise ValueError(f"there is no position {position} in {PyBytes_GET_SIZE(data)} bytes")
    cursor.start = <wire.Bytes>PyBytes_AS_STRING(data)
    cursor.at = cursor.start + position
    cursor.end = cursor.start + PyBytes_GET_SIZE(data)
    cursor.objects_left = objects_max
    fields = read_struct(schema, &cursor)
    return fields, cursor.at - cursor.start


cdef object malformed(str reason, Cursor* cursor):
    return MalformedRecordsError(reason, position=cursor.at - cursor.start)


cdef inline int need(Cursor* cursor, int64_t size) except -1:
    if size > cursor.end - cursor.at:
        raise malformed("the record ends within a field", cursor)
    return 0


cdef uint32_t read_unsigned(Cursor* cursor) except? 0xFFFFFFFF:
    """At most five bytes; bits above the 32nd are dropped, as the JVM drops them."""
    cdef uint32_t value = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        need(cursor, 1)
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint32_t>(byte & 127) << shift
        if byte < 128:
            return value
    raise malformed("a varint does not end", cursor)


cdef int64_t read_length(Cursor* cursor, bint flexible, bint short) except? -2:
    """A length that is here, in bytes or elements; -1 for null."""
    cdef int64_t length
    if flexible:
        # As the JVM reckons: 32 bits with a sign, less one.
        length = <int32_t>(read_unsigned(cursor) - 1)
    elif short:
        need(cursor, 2)
        length = <int16_t>wire.load16(cursor.at)
        cursor.at += 2
    else:
        need(cursor, 4)
        length = <int32_t>wire.load32(cursor.at)
        cursor.at += 4
    return length if length >= 0 else -1


cdef dict read_struct(MessageSchema schema, Cursor* cursor):
    cdef Field* field
    cdef int index
    cursor.objects_left -= schema.count + 3  # a dict takes as much as three small objects
    if cursor.objects_left < 0:
        raise malformed("the record has too many fields", cursor)
    fields = PyDict_Copy(schema.defaults)
    for index in range(schema.count):
        field = &schema.fields[index]
        if not field.tagged:
            PyDict_SetItem(fields, <object>field.name, read_field(field, schema.flexible, cursor))
        elif field.kind >= STRUCT and field.default != <PyObject*>None:
            PyDict_SetItem(fields, <object>field.name, schema.fresh(field))
    if schema.flexible:
        read_tagged(schema, fields, cursor)
    return fields


cdef int read_tagged(MessageSchema schema, dict fields, Cursor* cursor) except -1:
    cdef uint32_t number, tag
    cdef int64_t size
    cdef wire.Bytes end
    cdef Field* field
    cdef list unknown = None
    cdef uint32_t count = read_unsigned(cursor)
    if 2 * <int64_t>count > cursor.end - cursor.at:
        raise malformed("the record has too few bytes for its tagged fields", cursor)
    for number in range(count):
        tag = read_unsigned(cursor)
        size = read_unsigned(cursor)
        need(cursor, size)
        end = cursor.at + size
        field = find_tag(schema, tag)
        if field == NULL:
            cursor.objects_left -= 3
            if cursor.objects_left < 0:
                raise malformed("the record has too many fields", cursor)
            if unknown is None:
                unknown = fields.setdefault(unknown_name, [])
            unknown.append((tag, PyBytes_FromStringAndSize(<const char*>cursor.at, size)))
            cursor.at = end
        else:
            PyDict_SetItem(fields, <object>field.name, read_field(field, True, cursor))
            if cursor.at != end:
                raise malformed("a tagged field has another size than it says", cursor)
    return 0


cdef inline Field* find_tag(MessageSchema schema, uint32_t tag) noexcept:
    cdef int index
    for index in range(schema.tagged_count):
        if schema.tagged[index].tag == tag:
            return schema.tagged[index]
    return NULL


cdef object read_field(Field* field, bint flexible, Cursor* cursor):
    if field.kind == ARRAY:
        return read_array(field, flexible, cursor)
    if field.kind == STRUCT and field.nullable and is_null_struct(field, cursor):
        return None
    return read_value(field.kind, field.nullable, field.struct, flexible, cursor)


cdef bint is_null_struct(Field* field, Cursor* cursor) except -1:
    """The mark before a structure that may be null: a varint where it has a tag, a byte where it has none."""
    if field.tagged:
        return <int32_t>read_unsigned(cursor) <= 0
    need(cursor, 1)
    cursor.at += 1
    return <int8_t>cursor.at[-1] < 0


cdef object read_array(Field* field, bint flexible, Cursor* cursor):
    cdef int64_t index
    cdef int64_t count = read_length(cursor, flexible, False)
    if count < 0:
        if not field.nullable:
            raise malformed(f"{<str>field.name} is null and may not be", cursor)
        return None
    if count > (cursor.end - cursor.at) // max(field.size_min, 1):
        raise malformed(f"{<str>field.name} has more elements than the record has bytes for", cursor)
    cursor.objects_left -= count
    if cursor.objects_left < 0:
        raise malformed("the record has too many fields", cursor)
    elements = PyList_New(count)
    for index in range(count):
        element = read_value(field.element, False, field.struct, flexible, cursor)
        Py_INCREF(element)
        PyList_SET_ITEM(elements, index, element)
    return elements


cdef object read_value(Kind kind, bint nullable, PyObject* struct, bint flexible, Cursor* cursor):
    if kind == STRING or kind == BYTES:
        return read_text(kind == STRING, nullable, flexible, cursor)
    if kind == STRUCT:
        return read_struct(<MessageSchema>struct, cursor)
    if kind == INT32:
        need(cursor, 4)
        cursor.at += 4
        return <int32_t>wire.load32(cursor.at - 4)
    if kind == UUID:
        need(cursor, 16)
        cursor.at += 16
        return uuid_of(wire.load64(cursor.at - 16), wire.load64(cursor.at - 8))
    return read_number(kind, cursor)


cdef object read_text(bint is_string, bint nullable, bint flexible, Cursor* cursor):
    cdef int64_t size = read_length(cursor, flexible, is_string)
    if size < 0:
        if not nullable:
            raise malformed("a field is null and may not be", cursor)
        return None
    if is_string and size > STRING_SIZE_MAX:
        raise malformed("a string is longer than any may be", cursor)
    need(cursor, size)
    cursor.at += size
    if is_string:
        return PyUnicode_DecodeUTF8(<char*>cursor.at - size, size, "surrogateescape")
    return PyBytes_FromStringAndSize(<char*>cursor.at - size, size)


cdef object read_number(Kind kind, Cursor* cursor):
    cdef uint64_t bits
    cdef double number
    if kind == BOOL or kind == INT8:
        need(cursor, 1)
        cursor.at += 1
        if kind == BOOL:
            return True if cursor.at[-1] else False
        return <int8_t>cursor.at[-1]
    if kind == INT16 or kind == UINT16:
        need(cursor, 2)
        cursor.at += 2
        if kind == INT16:
            return <int16_t>wire.load16(cursor.at - 2)
        return wire.load16(cursor.at - 2)
    if kind == UINT32:
        need(cursor, 4)
        cursor.at += 4
        return wire.load32(cursor.at - 4)
    need(cursor, 8)
    cursor.at += 8
    bits = wire.load64(cursor.at - 8)
    if kind == INT64:
        return <int64_t>bits
    memcpy(&number, &bits, 8)
    return number


cdef object uuid_of(uint64_t high, uint64_t low):
    """As `UUID(int=...)`, without the checks of what cannot be wrong here."""
    made = UUID_CLASS.__new__(UUID_CLASS)
    PyObject_GenericSetAttr(made, "int", (<object>high << 64) | low)
    PyObject_GenericSetAttr(made, "is_safe", IS_SAFE)
    return made
