# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Records as lazy values: places in a buffer, cut out only when asked for."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.object cimport PyObject_GenericGetAttr
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final, freelist, no_gc
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from storage.errors import DecompressedTooLargeError, MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.walk cimport BatchFrame, EntryFrame


cdef dict REASONS = {
    wire.MALFORMED_VARINT: "a varint does not end where it must",
    wire.MALFORMED_LENGTH: "the record's length overruns the records",
    wire.MALFORMED_KEY: "the key overruns the record",
    wire.MALFORMED_VALUE: "the value overruns the record",
    wire.MALFORMED_HEADERS: "the headers overrun the record",
    wire.MALFORMED_REST: "the record's fields do not fill it",
}


# The names of the four attributes that every consumer reads, as the interpreter interns them.
cdef object OFFSET = "offset"
cdef object TIMESTAMP = "timestamp"
cdef object KEY = "key"
cdef object VALUE = "value"

# Header names recur from record to record, so the last ones seen are kept, each in the place its bytes hash to.
cdef enum:
    MOST_HEADERS = 1000000
    UNLOCKED_HEADERS = 10000
    LARGE_RECORD = 262144
    SMALLEST_RECORD = 7
    NAME_PLACES = 256
    LONGEST_KEPT_NAME = 40
cdef list KEPT_NAMES = [None] * NAME_PLACES
cdef list KEPT_NAME_BYTES = [b""] * NAME_PLACES


cdef object header_name(const uint8_t* data, int32_t size):
    """The name as text; bytes that are not UTF-8 become lone surrogates, so that none is lost."""
    cdef uint32_t place = <uint32_t>size
    cdef int32_t index
    cdef bytes kept
    if size > LONGEST_KEPT_NAME:
        return PyUnicode_DecodeUTF8(<char*>data, size, "surrogateescape")
    for index in range(size):
        place = place * 31 + data[index]
    place = (place ^ (place >> 8)) % NAME_PLACES
    kept = <bytes>KEPT_NAME_BYTES[place]
    if len(kept) != size or KEPT_NAMES[place] is None or memcmp(<const char*>kept, data, size) != 0:
        KEPT_NAMES[place] = PyUnicode_DecodeUTF8(<char*>data, size, "surrogateescape")
        KEPT_NAME_BYTES[place] = PyBytes_FromStringAndSize(<const char*>data, size)
    return KEPT_NAMES[place]


cdef inline bint is_large(wire.Bytes at, wire.Bytes end) noexcept:
    """True if the next record is so large that looking through its headers may take long."""
    cdef int32_t size
    return end - at > LARGE_RECORD and wire.read_varint32(&at, end, &size) == 0 and size > LARGE_RECORD


cdef object bytes_or_null(const uint8_t* data, int32_t size):
    cdef bytes copy
    cdef char* target
    if size < 0:
        return None
    if size <= LARGE_RECORD:
        return PyBytes_FromStringAndSize(<const char*>data, size)
    copy = PyBytes_FromStringAndSize(NULL, size)
    target = PyBytes_AS_STRING(copy)
    with nogil:  # copying a quarter of a gigabyte takes a quarter of a second
        memcpy(target, data, size)
    return copy


@final
@no_gc
@freelist(64)
cdef class Record:
    """One record. Key, value and headers are made from the underlying bytes each time they are asked for.

    Equality compares what a consumer sees: offset, timestamp and its type, key, value and headers.
    """

    def __getattribute__(self, name):
        # Four comparisons of pointers cost half of what finding the descriptor does, and this is the hot loop.
        if name is KEY:
            return bytes_or_null(self.key_at, self.key_size)
        if name is VALUE:
            return bytes_or_null(self.value_at, self.value_size)
        if name is OFFSET:
            return self.offset
        if name is TIMESTAMP:
            return self.timestamp
        return PyObject_GenericGetAttr(self, name)

    @property
    def key(self):
        """The key's bytes, or None for a null key."""
        return bytes_or_null(self.key_at, self.key_size)

    @property
    def value(self):
        """The value's bytes, or None for a null value (a tombstone)."""
        return bytes_or_null(self.value_at, self.value_size)

    @property
    def headers_size(self):
        """How many bytes of the record its headers take."""
        return self.end_at - self.headers_at if self.header_count else 0

    @property
    def headers(self):
        """The headers in order, as (name, value or None). Bytes that are not UTF-8 become lone surrogates.

        Raises `DecompressedTooLargeError` for more of them than one record may have in memory.
        """
        cdef wire.Bytes at = self.headers_at
        cdef wire.Bytes key = NULL
        cdef wire.Bytes value = NULL
        cdef int32_t index, key_size = 0, value_size = 0
        cdef tuple headers, header
        cdef object part
        if self.header_count == 0:
            return ()
        if self.header_count > MOST_HEADERS:
            raise DecompressedTooLargeError(
                f"the record has {self.header_count} headers, and no more than {MOST_HEADERS} are decoded",
                offset=self.offset,
            )
        headers = PyTuple_New(self.header_count)
        for index in range(self.header_count):
            if index % UNLOCKED_HEADERS == UNLOCKED_HEADERS - 1:
                with nogil:  # so that other threads run meanwhile
                    pass
            # The record was checked to its last byte when it was read, so this cannot fail.
            wire.read_header(&at, self.end_at, &key, &key_size, &value, &value_size)
            header = PyTuple_New(2)
            part = header_name(key, key_size)
            Py_INCREF(part)
            PyTuple_SET_ITEM(header, 0, part)
            part = bytes_or_null(value, value_size)
            Py_INCREF(part)
            PyTuple_SET_ITEM(header, 1, part)
            Py_INCREF(header)
            PyTuple_SET_ITEM(headers, index, header)
        return headers

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.timestamp_type == other.timestamp_type
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self):
        return hash((self.offset, self.timestamp, self.key, self.value))

    def __repr__(self):
        return f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r})"


cdef PinnedBuffer find_records(BatchFrame batch, records_data, wire.Bytes* at, wire.Bytes* end):
    """Set where the records are: in `records_data`, or in the batch's own bytes. Of a batch of none, no bytes are."""
    cdef PinnedBuffer buffer = batch.buffer
    if records_data is None:
        at[0] = batch.data() + wire.HEADER_SIZE
        end[0] = batch.data() + batch.size_bytes
    else:
        buffer = PinnedBuffer(records_data)
        at[0] = buffer.data
        end[0] = buffer.data + buffer.size
    if batch.count < 0:
        raise MalformedRecordsError(
            f"the batch declares {batch.count} records", position=batch.position, offset=batch.base_offset
        )
    if batch.count == 0:
        at[0] = end[0]
    return buffer


cdef object malformed(BatchFrame batch, int reason, int32_t left):
    """Return the error of a record that is none, with so many that the batch declares before its end."""
    return MalformedRecordsError(
        f"{REASONS[reason]}, {left} of the batch's records before its end",
        position=batch.position,
        offset=batch.base_offset,
    )


cdef object excess(BatchFrame batch, Py_ssize_t size):
    """Return the error of a batch that has so many bytes after its last record."""
    return MalformedRecordsError(
        f"{size} bytes follow the last record the batch declares", position=batch.position, offset=batch.base_offset
    )


cdef inline Record record_at(BatchFrame batch, PinnedBuffer buffer, const wire.Span* span):
    """Return the record of a batch that was read at a place in the buffer."""
    cdef Record record = Record.__new__(Record)
    record.offset = wire.add64(batch.base_offset, span.offset_delta)
    record.timestamp_type = (batch.attributes >> 3) & 1
    if record.timestamp_type:
        record.timestamp = batch.max_timestamp
    else:
        record.timestamp = wire.add64(batch.base_timestamp, span.timestamp_delta)
    record.sequence = wire.NO_SEQUENCE
    if batch.base_sequence >= 0:
        record.sequence = wire.sequence_after(batch.base_sequence, span.offset_delta)
    record.key_size = span.key_size
    record.value_size = span.value_size
    record.header_count = span.header_count
    record.key_at = span.key
    record.value_at = span.value
    record.headers_at = span.headers
    record.end_at = span.end
    record.buffer = buffer
    return record


@final
cdef class RecordIterator:
    """The records of a v2 batch, in order: from `records_data`, its decompressed records, or from its own bytes.

    After the declared count of records the data must be used up. Anything else raises
    `MalformedRecordsError` with the batch's position, at the record where it shows; the records before it were
    right. Of a batch that declares none nothing is looked at, as on the JVM. The data must not change while any
    of its records is alive.
    """

    cdef PinnedBuffer buffer
    cdef wire.Bytes at
    cdef wire.Bytes end
    cdef int32_t left
    cdef BatchFrame batch

    def __init__(self, BatchFrame batch not None, records_data=None):
        self.buffer = find_records(batch, records_data, &self.at, &self.end)
        self.batch = batch
        self.left = batch.count

    def __iter__(self):
        return self

    def __next__(self):
        cdef wire.Span span
        cdef int reason
        if self.left == 0:
            if self.at != self.end:
                raise excess(self.batch, self.end - self.at)
            raise StopIteration
        if is_large(self.at, self.end):
            with nogil:
                reason = wire.read_record(&self.at, self.end, &span)
        else:
            reason = wire.read_record(&self.at, self.end, &span)
        if reason:
            raise malformed(self.batch, reason, self.left)
        self.left -= 1
        return record_at(self.batch, self.buffer, &span)


@final
cdef class RecordSequence:
    """The records of a v2 batch by their index, each made when it is asked for: of each only the place is kept.

    All are checked at once, and raise what `RecordIterator` raises. The data must not change while this or any of its
    records is alive.
    """

    cdef PinnedBuffer buffer
    cdef BatchFrame batch
    cdef object records_data
    cdef wire.Bytes start
    cdef wire.Bytes end
    cdef uint32_t* places  # no batch has 4 GiB, nor is so much decompressed

    def __init__(self, BatchFrame batch not None, records_data=None):
        cdef int reason = 0
        cdef int32_t index = 0
        self.buffer = find_records(batch, records_data, &self.start, &self.end)
        self.batch = batch
        self.records_data = records_data
        # A count may be a lie: the data has no room for more records than this.
        self.places = <uint32_t*>PyMem_RawRealloc(
            self.places, (min(batch.count, (self.end - self.start) // SMALLEST_RECORD + 1)) * sizeof(uint32_t)
        )
        if self.places is NULL:
            raise MemoryError
        if self.end - self.start < limits.UNLOCKED_BYTES_MIN:
            reason = self.look(&index)
        else:
            with nogil:
                reason = self.look(&index)
        if reason > 0:
            raise malformed(batch, reason, batch.count - index)
        if reason < 0:
            raise excess(batch, -reason)

    cdef int look(self, int32_t* index) noexcept nogil:
        """Note the places; returns why a record is none, the negative number of bytes after the last, or 0."""
        cdef wire.Bytes at = self.start
        cdef wire.Span span
        cdef int reason
        cdef int32_t place
        for place in range(self.batch.count):
            self.places[place] = <uint32_t>(at - self.start)
            reason = wire.read_record(&at, self.end, &span)
            if reason:
                index[0] = place
                return reason
        return -<int>min(self.end - at, INT32_MAX)

    def __dealloc__(self):
        PyMem_RawFree(self.places)

    def __len__(self):
        return self.batch.count

    @property
    def size_bytes(self):
        """What this keeps besides the batch's own bytes: the places, and the decompressed records."""
        return self.batch.count * sizeof(uint32_t) + (0 if self.records_data is None else self.end - self.start)

    def __iter__(self):
        return RecordIterator(self.batch, self.records_data)

    def __getitem__(self, Py_ssize_t index):
        cdef wire.Span span
        cdef wire.Bytes at = self.start
        if index < 0:
            index += self.batch.count
        if not 0 <= index < self.batch.count:
            raise IndexError(index)
        at += self.places[index]
        wire.read_checked_record(&at, self.end, &span)
        return record_at(self.batch, self.buffer, &span)


def entry_record(EntryFrame entry not None, int64_t base_offset, int64_t timestamp, int timestamp_type):
    """The record that a legacy entry holds; its offset counts from the base, its time is what its set gives it."""
    cdef Record record
    if entry.key_start < 0:
        raise MalformedRecordsError("the key or value overruns the entry", position=entry.position)
    record = Record.__new__(Record)
    record.buffer = entry.buffer
    record.offset = wire.add64(base_offset, entry.offset)
    record.timestamp = timestamp
    record.timestamp_type = timestamp_type
    record.sequence = wire.NO_SEQUENCE
    record.key_size = entry.key_size
    record.value_size = entry.value_size
    record.key_at = entry.buffer.data + entry.key_start
    record.value_at = entry.buffer.data + entry.value_start
    record.header_count = 0
    return record
