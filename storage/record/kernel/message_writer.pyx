# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Writing a message by its schema, as Kafka's own writer does: byte for byte what the JVM would write."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport PyObject
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import uuid

from storage.errors import InvalidRecordError
from storage.record.kernel cimport wire
from storage.record.kernel import message_reader
from storage.record.kernel.message_schema cimport (
    ARRAY,
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
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

cdef str unknown_name = message_reader.UNKNOWN_TAGGED_FIELDS
cdef object UUID_CLASS = uuid.UUID
cdef list LOWEST = [0, -(1 << 7), -(1 << 15), 0, -(1 << 31), 0, -(1 << 63)]  # by kind
cdef list HIGHEST = [1, (1 << 7) - 1, (1 << 15) - 1, (1 << 16) - 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1]

cdef enum:
    SIZE_MAX = 0x7FFFFFFF  # of bytes, elements and a whole message

cdef int64_t TAG_MAX = 0xFFFFFFFF


def write_message(MessageSchema schema not None, dict fields not None):
    """The bytes of a message with these fields; a field that is absent has its default.

    Tagged fields that have their defaults are left out. Unknown tagged fields, as `read_message` gives them, are
    written among the others by their tags. Raises `InvalidRecordError` for a name that the schema does not have, for
    a value of another type or out of its type's range, and for a null where none may be.
    """
    target = _Target()
    write_struct(schema, fields, target)
    return target.taken()


@final
cdef class _Target:
    """Bytes that grow."""

    cdef uint8_t* data
    cdef int64_t size
    cdef int64_t room

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t* reserve(self, int64_t size) except NULL:
        """The place for that many bytes more, which the caller writes."""
        cdef uint8_t* grown
        if size > SIZE_MAX - self.size:
            raise InvalidRecordError("a message would have more than 2147483647 bytes")
        if size > self.room - self.size:
            self.room = max(2 * self.room, self.size + size, 128)
            grown = <uint8_t*>PyMem_Realloc(self.data, self.room)
            if grown == NULL:
                raise MemoryError
            self.data = grown
        self.size += size
        return self.data + self.size - size

    cdef int unsigned(self, uint64_t value) except -1:
        while value > 127:
            self.reserve(1)[0] = <uint8_t>(value | 128)
            value >>= 7
        self.reserve(1)[0] = <uint8_t>value
        return 0

    cdef int length(self, int64_t length, bint flexible, bint short) except -1:
        """A length in bytes or elements; -1 for null."""
        if flexible:
            return self.unsigned(<uint64_t>(length + 1))
        if short:
            wire.store16(self.reserve(2), <uint16_t>length)
        else:
            wire.store32(self.reserve(4), <uint32_t>length)
        return 0

    cdef int bytes_(self, bytes data) except -1:
        memcpy(self.reserve(PyBytes_GET_SIZE(data)), PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        return 0

    cdef bytes taken(self):
        return PyBytes_FromStringAndSize(<char*>self.data, self.size)


cdef int write_struct(MessageSchema schema, object given, _Target target) except -1:
    cdef Field* field
    cdef dict fields
    cdef int index
    if not isinstance(given, dict):
        raise InvalidRecordError(f"a structure is written from a dict, not from {type(given).__name__}")
    fields = given
    if not fields.keys() <= schema.names:
        unknown = sorted(map(str, fields.keys() - schema.names - {unknown_name}))
        if unknown:
            raise InvalidRecordError(f"this version has no field {', '.join(unknown)}")
        if fields[unknown_name] and not schema.flexible:
            raise InvalidRecordError("this version has no tagged fields")
    for index in range(schema.count):
        field = &schema.fields[index]
        if not field.tagged:
            name = <object>field.name
            write_field(field, fields[name] if name in fields else schema.fresh(field), schema.flexible, target)
    if schema.flexible:
        write_tagged(schema, fields, target)
    return 0


cdef int write_tagged(MessageSchema schema, dict fields, _Target target) except -1:
    cdef Field* field
    cdef _Target inner
    cdef int index
    cdef list tagged = []
    for index in range(schema.tagged_count):
        field = schema.tagged[index]
        name = <object>field.name
        if name in fields and fields[name] != schema.fresh(field):
            inner = _Target()
            write_field(field, fields[name], True, inner)
            tagged.append((field.tag, inner.taken()))
    for tag, data in fields.get(unknown_name, ()):
        if not isinstance(tag, int) or not 0 <= tag <= TAG_MAX or not isinstance(data, bytes):
            raise InvalidRecordError("an unknown tagged field is a pair of a tag and bytes")
        tagged.append((tag, data))
    tagged.sort()
    target.unsigned(len(tagged))
    last = -1
    for tag, data in tagged:
        if tag == last:
            raise InvalidRecordError(f"the tag {tag} is there twice")
        last = tag
        target.unsigned(tag)
        target.unsigned(len(data))
        target.bytes_(data)
    return 0


cdef int write_field(Field* field, object value, bint flexible, _Target target) except -1:
    """The value of a field, checked; an error names the field."""
    try:
        if value is None and not field.nullable:
            raise InvalidRecordError("may not be null")
        if field.kind == ARRAY:
            write_array(field, value, flexible, target)
        elif field.kind == STRUCT and field.nullable:
            # A varint where it has a tag, a byte where it has none: 1 is the same in both.
            target.reserve(1)[0] = 1 if value is not None else 0 if field.tagged else 255
            if value is not None:
                write_struct(<MessageSchema>field.struct, value, target)
        else:
            write_value(field.kind, value, field.struct, flexible, target)
    except InvalidRecordError as error:
        raise InvalidRecordError(f"{<str>field.name}: {error.reason}") from None
    return 0


cdef int write_array(Field* field, object value, bint flexible, _Target target) except -1:
    if value is None:
        return target.length(-1, flexible, False)
    if not isinstance(value, (list, tuple)):
        raise InvalidRecordError(f"an array is written from a list, not from {type(value).__name__}")
    target.length(len(value), flexible, False)
    for element in value:
        if element is None:
            raise InvalidRecordError("an element may not be null")
        write_value(field.element, element, field.struct, flexible, target)
    return 0


cdef int write_value(Kind kind, object value, PyObject* struct, bint flexible, _Target target) except -1:
    if kind == STRING:
        return write_string(value, flexible, target)
    if kind == BYTES:
        return write_bytes(value, flexible, target)
    if kind == STRUCT:
        return write_struct(<MessageSchema>struct, value, target)
    if kind == UUID:
        if not isinstance(value, UUID_CLASS):
            raise InvalidRecordError(f"an id is a UUID, not {type(value).__name__}")
        return target.bytes_(value.bytes)
    return write_number(kind, value, target)


cdef int write_string(object value, bint flexible, _Target target) except -1:
    if value is None:
        return target.length(-1, flexible, True)
    if not isinstance(value, str):
        raise InvalidRecordError(f"a string is a str, not {type(value).__name__}")
    try:
        encoded = (<str>value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRecordError(f"a string cannot be written in UTF-8: {error.reason}") from None
    if len(encoded) > STRING_SIZE_MAX:
        raise InvalidRecordError(f"a string has {len(encoded)} bytes, and {STRING_SIZE_MAX} are allowed")
    target.length(len(encoded), flexible, True)
    return target.bytes_(encoded)


cdef int write_bytes(object value, bint flexible, _Target target) except -1:
    if value is None:
        return target.length(-1, flexible, False)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidRecordError(f"bytes are a bytes object, not {type(value).__name__}")
    data = bytes(value)
    target.length(len(data), flexible, False)
    return target.bytes_(data)


cdef int write_number(Kind kind, object value, _Target target) except -1:
    cdef uint64_t bits
    cdef double number
    if kind == FLOAT64:
        if not isinstance(value, (int, float)):
            raise InvalidRecordError(f"a number is expected, not {type(value).__name__}")
        number = value
        memcpy(&bits, &number, 8)
    else:
        if not isinstance(value, int):
            raise InvalidRecordError(f"an integer is expected, not {type(value).__name__}")
        if not LOWEST[kind] <= value <= HIGHEST[kind]:
            raise InvalidRecordError(f"{value} is out of the range from {LOWEST[kind]} to {HIGHEST[kind]}")
        bits = <uint64_t><int64_t>value
    if kind == BOOL or kind == INT8:
        target.reserve(1)[0] = <uint8_t>bits
    elif kind == INT16 or kind == UINT16:
        wire.store16(target.reserve(2), <uint16_t>bits)
    elif kind == INT32 or kind == UINT32:
        wire.store32(target.reserve(4), <uint32_t>bits)
    else:
        wire.store64(target.reserve(8), bits)
    return 0
