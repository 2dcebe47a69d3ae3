# cython: language_level=3, auto_pickle=False, autotestdict=False
"""A version of a message that Kafka's generated classes define, made ready to be read and written."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport PyObject
from cython cimport final

cdef dict KINDS = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "uint16": UINT16,
    "int32": INT32,
    "uint32": UINT32,
    "int64": INT64,
    "float64": FLOAT64,
    "uuid": UUID,
    "string": STRING,
    "bytes": BYTES,
    "struct": STRUCT,
}
cdef list FIXED_SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16]  # by kind


cdef int64_t least(Kind kind, PyObject* struct, bint flexible) except -1:
    """The fewest bytes that a value has which is not null."""
    if kind == STRUCT:
        return (<MessageSchema>struct).size_min
    return FIXED_SIZES[kind] if kind < STRING else length_size(kind, flexible)


cdef int64_t length_size(Kind kind, bint flexible) noexcept:
    """The fewest bytes of what comes before a value: its length, or the mark of a structure that may be null."""
    if flexible or kind == STRUCT:
        return 1
    return 2 if kind == STRING else 4


@final
cdef class MessageSchema:
    """The fields of a structure in one version, and whether that version is flexible.

    `definition` has for each field, in the order in which Kafka defines and prints them: its name, its type (an integer
    such as `int32`, `bool`, `float64`, `uuid`, `string`, `bytes`, `struct`, or one of them after `[]`), whether it may
    be null, its tag or None, its default, and the schema of its structure or None. Fields without a tag stand on the
    wire in this order. A schema never changes.
    """

    def __cinit__(self, tuple definition not None, *, bint flexible):
        cdef Field* field
        cdef int index
        self.definition = tuple(map(tuple, definition))  # which keeps what the fields point to
        self.flexible = flexible
        self.defaults = {}
        self.count = len(definition)
        self.fields = <Field*>PyMem_Calloc(self.count + 1, sizeof(Field))
        self.tagged = <Field**>PyMem_Calloc(self.count + 1, sizeof(Field*))
        if self.fields == NULL or self.tagged == NULL:
            raise MemoryError
        by_tag = {}
        for index, (name, kind, nullable, tag, default, struct) in enumerate(self.definition):
            field = &self.fields[index]
            field.kind = ARRAY if kind.startswith("[]") else KINDS[kind]
            field.element = KINDS[kind.removeprefix("[]")]
            field.nullable = nullable
            field.tagged = tag is not None
            field.name = <PyObject*>name
            field.default = <PyObject*>default
            field.struct = <PyObject*>struct
            if field.element == STRUCT and not isinstance(struct, MessageSchema):
                raise TypeError(f"the structure of {name} has no schema")
            field.size_min = least(field.element, field.struct, flexible)
            self.defaults[name] = default
            if field.tagged:
                if not flexible or tag in by_tag:
                    raise ValueError(f"{name} cannot have the tag {tag}")
                field.tag = tag
                by_tag[tag] = index
            elif nullable or field.kind == ARRAY:
                self.size_min += length_size(BYTES if field.kind == ARRAY else field.element, flexible)
            else:
                self.size_min += field.size_min
        self.size_min += flexible
        self.names = frozenset(self.defaults)
        for index, tag in enumerate(sorted(by_tag)):
            self.tagged[index] = &self.fields[<int>by_tag[tag]]
        self.tagged_count = len(by_tag)

    def __dealloc__(self):
        PyMem_Free(self.fields)
        PyMem_Free(self.tagged)

    cdef object fresh(self, Field* field):
        """The field's default, as a value that its owner may change."""
        if field.default == <PyObject*>None:
            return None
        if field.kind == ARRAY:
            return []
        if field.kind == STRUCT:
            return (<MessageSchema>field.struct).default()
        return <object>field.default

    def default(self):
        """All fields with their defaults."""
        cdef int index
        fields = {}
        for index in range(self.count):
            fields[<object>self.fields[index].name] = self.fresh(&self.fields[index])
        return fields

    def stated(self, dict fields not None):
        """The fields that Kafka's JSON shows, in its order: all but tagged ones with their defaults.

        Of `fields` those are taken that this schema has; what a newer version of it knows besides is left out.
        """
        cdef Field* field
        cdef int index
        shown = {}
        for index in range(self.count):
            field = &self.fields[index]
            value = fields[<object>field.name]
            if field.tagged and value == self.fresh(field):
                continue
            if field.element == STRUCT and value is not None:
                inner = <MessageSchema>field.struct
                value = [inner.stated(each) for each in value] if field.kind == ARRAY else inner.stated(value)
            shown[<object>field.name] = value
        return shown
