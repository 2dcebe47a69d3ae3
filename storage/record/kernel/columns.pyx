# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Filling the buffers of Arrow columns from records, in one pass and without an object per record.

A `ColumnFiller` promises that it writes within its buffers, that every row is one record exactly, and that a batch
whose records do not parse to their end leaves no row. The size of chunks, and making arrays of filled buffers, are
left to `storage.record.columns`.
"""

from cpython.buffer cimport Py_buffer, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.batch cimport (
    DAMAGED, FULL, USED_UP, Batch, fill, parses, put_batch, read_batch
)
from storage.record.kernel.chunk cimport (
    SHORT, Chunk, RoomNeeded, Strings, room_needed, has_room, is_outgrown_by, put_record
)
from storage.record.kernel.crc32c cimport checksum
from storage.record.kernel.decode cimport Record
from storage.record.kernel.decode import RecordIterator
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.walk cimport BatchFrame, EntryFrame

cdef enum:
    LARGEST_ROOM = 0x7FFFFFFF  # Arrow counts the bytes of a column of strings in 32 bits

# The columns of fixed width, and their widths in bytes.
cdef dict WIDTHS = {
    "offset": 8, "timestamp": 8, "timestampType": 4, "producerId": 8, "producerEpoch": 2, "sequence": 4, "codec": 1,
    "leaderEpoch": 4, "position": 8,
}
cdef tuple BIT_COLUMNS = ("isTransactional", "isControl")


cdef inline int64_t bits_size(int64_t rows) noexcept nogil:
    return (rows + 7) // 8


@final
cdef class Output:
    """A hold on a buffer that is being written."""

    cdef object target
    cdef Py_buffer buffer

    def __cinit__(self, target, Py_ssize_t size_bytes):
        self.target = target
        PyObject_GetBuffer(target, &self.buffer, PyBUF_WRITABLE)
        if self.buffer.len < size_bytes:
            raise ValueError(f"a buffer of {size_bytes} bytes was asked for, and one of {self.buffer.len} given")

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


@final
cdef class ColumnFiller:
    """Writes records into buffers that `allocate(size_bytes)` gives it, for the columns asked for.

    Records outside `first_offset`..`last_offset` are left out, and control batches unless they are asked for.
    Between `begin` and `finish` a chunk takes rows; a batch that is open when its chunk is finished goes on in the
    next. Only one thread at a time may use it.
    """

    cdef frozenset columns
    cdef object allocate
    cdef int64_t first_offset
    cdef int64_t last_offset
    cdef bint include_control
    cdef bint check_crc
    cdef Chunk chunk
    cdef Chunk mark  # the chunk as it was before the open batch
    cdef RoomNeeded lacking
    cdef dict outputs
    cdef Batch batch
    cdef bint is_open
    cdef bint is_verified
    cdef BatchFrame frame
    cdef object records_data
    cdef PinnedBuffer buffer  # where the open batch's records lie

    def __init__(
        self, columns, allocate, *, int64_t first_offset, int64_t last_offset, bint include_control, bint check_crc
    ):
        self.columns = frozenset(columns)
        self.allocate = allocate
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.include_control = include_control
        self.check_crc = check_crc
        self.outputs = {}

    @property
    def rows(self):
        """The number of rows in the chunk."""
        return self.chunk.rows

    @property
    def used(self):
        """The room used in the chunk: rows, bytes of keys and of values, headers, bytes of their keys and values."""
        return (
            self.chunk.rows, self.chunk.key.used, self.chunk.value.used,
            self.chunk.headers, self.chunk.header_key.used, self.chunk.header_value.used,
        )

    @property
    def needed(self):
        """The room that the record needs which did not fit, in the order of `used`."""
        return (
            self.lacking.rows, self.lacking.key_bytes, self.lacking.value_bytes,
            self.lacking.headers, self.lacking.header_key_bytes, self.lacking.header_value_bytes,
        )

    def begin(
        self, int64_t rows, int64_t key_bytes, int64_t value_bytes,
        int64_t headers, int64_t header_key_bytes, int64_t header_value_bytes,
    ):
        """Begin an empty chunk with that much room, instead of the one before; what is not wanted takes none."""
        cdef Chunk chunk
        for room in (rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes):
            if not 0 <= room <= LARGEST_ROOM:
                raise ValueError(f"a chunk cannot have room for {room}")
        self.finish()
        memset(&chunk, 0, sizeof(Chunk))
        chunk.row_room = rows
        chunk.offset = <int64_t*>self.room_for_fixed("offset", rows)
        chunk.timestamp = <int64_t*>self.room_for_fixed("timestamp", rows)
        chunk.timestamp_type = <int32_t*>self.room_for_fixed("timestampType", rows)
        chunk.producer_id = <int64_t*>self.room_for_fixed("producerId", rows)
        chunk.producer_epoch = <int16_t*>self.room_for_fixed("producerEpoch", rows)
        chunk.sequence = <int32_t*>self.room_for_fixed("sequence", rows)
        chunk.codec = <int8_t*>self.room_for_fixed("codec", rows)
        chunk.leader_epoch = <int32_t*>self.room_for_fixed("leaderEpoch", rows)
        chunk.position = <int64_t*>self.room_for_fixed("position", rows)
        if "isTransactional" in self.columns:
            chunk.is_transactional = self.room_for_bits("isTransactional", rows, 0)
        if "isControl" in self.columns:
            chunk.is_control = self.room_for_bits("isControl", rows, 0)
        if "key" in self.columns:
            self.room_for_strings(&chunk.key, "key", rows, key_bytes)
        if "value" in self.columns:
            self.room_for_strings(&chunk.value, "value", rows, value_bytes)
        if "headers" in self.columns:
            chunk.header_room = headers
            chunk.header_ends = self.room_for_ends("headers.ends", rows)
            self.room_for_strings(&chunk.header_key, "headers.key", headers, header_key_bytes)
            self.room_for_strings(&chunk.header_value, "headers.value", headers, header_value_bytes)
        self.chunk = chunk
        self.mark = chunk

    def finish(self):
        """End the chunk: its buffers by the names of the columns' parts, each with the bytes used of it.

        Strings without a null among them have no validity. The buffers are the caller's from here on.
        """
        cdef dict parts = {}
        cdef int64_t rows = self.chunk.rows
        for name, width in WIDTHS.items():
            self.take(parts, name, width * rows)
        for name in BIT_COLUMNS:
            self.take(parts, name, bits_size(rows))
        self.take_strings(parts, &self.chunk.key, "key", rows)
        self.take_strings(parts, &self.chunk.value, "value", rows)
        self.take(parts, "headers.ends", 4 * (rows + 1))
        self.take_strings(parts, &self.chunk.header_key, "headers.key", self.chunk.headers)
        self.take_strings(parts, &self.chunk.header_value, "headers.value", self.chunk.headers)
        self.outputs = {}
        memset(&self.chunk, 0, sizeof(Chunk))
        self.mark = self.chunk
        return parts

    def wants(self, BatchFrame frame not None):
        """True if the header allows that records of this batch belong into the columns."""
        cdef Batch batch = read_batch(frame.data(), frame.position, NULL, NULL)
        return self.wants_batch(&batch)

    def run(self, PinnedBuffer buffer not None, Py_ssize_t start, Py_ssize_t end, int64_t origin):
        """Fill from uncompressed v2 batches, as many as follow one another from start on; returns where it stopped.

        That is before the first batch that needs a closer look, be it of another kind, damaged, beyond the last
        offset or cut off by the end; or, when the chunk is full, after the batch that is open then, if one is.
        """
        if self.is_open:
            raise ValueError("the batch before has not been used up")
        if not 0 <= start <= end <= buffer.size:
            raise IndexError(f"{start}..{end} is not within a buffer of {buffer.size} bytes")
        with nogil:
            start = self.run_batches(buffer.data, start, end, origin)
        if self.is_open:
            self.buffer = buffer
            self.frame = self.records_data = None
        return start

    def open(self, BatchFrame frame not None, records_data=None):
        """Make this batch the one that `fill` reads; a compressed one comes with its decompressed records."""
        cdef PinnedBuffer buffer
        if self.is_open:
            raise ValueError("the batch before has not been used up")
        if records_data is not None:
            buffer = PinnedBuffer(records_data)
            self.batch = read_batch(frame.data(), frame.position, buffer.data, buffer.data + buffer.size)
        else:
            buffer = frame.buffer
            self.batch = read_batch(
                frame.data(), frame.position, frame.data() + wire.HEADER_SIZE, frame.data() + frame.size_bytes
            )
        self.buffer = buffer
        self.frame = frame
        self.records_data = records_data
        self.mark = self.chunk
        self.is_verified = False
        self.is_open = True

    def fill(self):
        """Fill from the open batch; False if the chunk is full before the batch is used up.

        Raises `MalformedRecordsError` if its records do not parse to the end; the chunk then has none of them.
        """
        cdef int result = USED_UP
        if self.is_open:
            if self.batch.end - self.batch.at < limits.UNLOCKED_BYTES_MIN:
                result = self.advance()
            else:
                with nogil:
                    result = self.advance()
            if result == DAMAGED:
                self.raise_damaged()
            if result == FULL and self.lacking.header_key_bytes > LARGEST_ROOM:
                self.chunk = self.mark
                raise MalformedRecordsError(
                    "a record's headers have names too long for a column",
                    position=self.batch.position,
                    offset=self.batch.base_offset,
                )
            if result == USED_UP:
                self.buffer = self.frame = self.records_data = None
        return result == USED_UP

    def append(self, Record record not None, EntryFrame frame not None):
        """Write one record of a legacy batch; False if the chunk is full."""
        cdef wire.Span span
        cdef Batch batch
        cdef int64_t row = self.chunk.rows
        if not self.first_offset <= record.offset <= self.last_offset:
            return True
        span.key = record.key_at
        span.key_size = record.key_size
        span.value = record.value_at
        span.value_size = record.value_size
        span.headers = record.headers_at
        span.header_count = record.header_count
        span.end = record.end_at
        if not has_room(&self.chunk, &span):
            self.lacking = room_needed(&self.chunk, &span)
            return False
        put_record(
            &self.chunk, &span, record.offset, record.timestamp, record.sequence,
            record.buffer.data + record.buffer.size,
        )
        memset(&batch, 0, sizeof(Batch))
        batch.position = frame.position
        batch.timestamp_type = record.timestamp_type
        batch.producer_id = wire.NO_PRODUCER
        batch.producer_epoch = wire.NO_PRODUCER
        batch.leader_epoch = wire.NO_LEADER_EPOCH
        batch.codec = frame.attributes & wire.CODEC_MASK
        put_batch(&self.chunk, &batch, row)
        return True

    cdef bint wants_batch(self, Batch* batch) noexcept nogil:
        return (
            batch.left != 0
            and batch.last_offset >= self.first_offset
            and (self.include_control or not batch.is_control)
        )

    cdef Py_ssize_t run_batches(self, wire.Bytes source, Py_ssize_t at, Py_ssize_t end, int64_t origin) noexcept nogil:
        cdef wire.Bytes data
        cdef int64_t length
        cdef int result
        while end - at >= wire.HEADER_SIZE:
            data = source + at
            length = <int32_t>wire.load32(data + wire.LENGTH_AT)
            if length < wire.HEADER_SIZE - wire.LOG_OVERHEAD or length > end - at - wire.LOG_OVERHEAD:
                break
            if data[wire.MAGIC_AT] != 2 or wire.load16(data + wire.ATTRIBUTES_AT) & wire.CODEC_MASK:
                break
            length += wire.LOG_OVERHEAD
            self.batch = read_batch(data, origin + at, data + wire.HEADER_SIZE, data + length)
            if self.batch.base_offset > self.last_offset:
                break
            self.mark = self.chunk
            if self.wants_batch(&self.batch):
                self.is_verified = False
                result = self.advance()
                # While it has no row, a batch is not begun.
                if result == DAMAGED or (result == FULL and self.chunk.rows == self.mark.rows):
                    self.is_open = False
                    break
            # Summing what was just read is much faster than reading what was just summed.
            if self.check_crc and wire.load32(data + wire.CRC_AT) != checksum(
                data + wire.ATTRIBUTES_AT, length - wire.ATTRIBUTES_AT
            ):
                self.chunk = self.mark
                self.is_open = False
                break
            at += length
            if self.is_open:
                break
        return at

    cdef int advance(self) noexcept nogil:
        """Fill from the open batch, and close it unless the chunk is full."""
        cdef int result = FULL
        if self.chunk.rows == self.mark.rows and is_outgrown_by(&self.chunk, self.batch.end - self.batch.at):
            # To split a batch it must be read ahead, and a chunk as full as this may end before it as well.
            memset(&self.lacking, 0, sizeof(RoomNeeded))
        else:
            result = fill(&self.chunk, &self.batch, &self.lacking, self.first_offset, self.last_offset)
        if result == FULL and not self.is_verified and self.chunk.rows != self.mark.rows:
            # The rows written so far leave with the chunk, so what follows them must be known to be right.
            self.is_verified = parses(self.batch)
            if not self.is_verified:
                result = DAMAGED
        if result == DAMAGED:
            self.chunk = self.mark
        self.is_open = result == FULL
        return result

    cdef int raise_damaged(self) except -1:
        """Let the reader of single records say what is wrong."""
        if self.frame is not None:
            try:
                for _ in RecordIterator(self.frame, self.records_data):
                    pass
            except MalformedRecordsError as error:
                raise error.located(offset=self.batch.base_offset)
        raise MalformedRecordsError(
            "the batch changed while it was read", position=self.batch.position, offset=self.batch.base_offset
        )

    cdef uint8_t* room_for(self, str name, int64_t size_bytes) except NULL:
        """Room for a part of a column, and the bytes beyond it that copying short strings may touch."""
        cdef Output output = Output(self.allocate(size_bytes + SHORT), size_bytes + SHORT)
        self.outputs[name] = output
        return <uint8_t*>output.buffer.buf

    cdef void* room_for_fixed(self, str name, int64_t rows) except? NULL:
        return self.room_for(name, rows * <int64_t>WIDTHS[name]) if name in self.columns else NULL

    cdef uint8_t* room_for_bits(self, str name, int64_t rows, int byte) except NULL:
        cdef uint8_t* data = self.room_for(name, bits_size(rows))
        memset(data, byte, bits_size(rows))
        return data

    cdef int32_t* room_for_ends(self, str name, int64_t rows) except NULL:
        cdef int32_t* ends = <int32_t*>self.room_for(name, 4 * (rows + 1))
        ends[0] = 0
        return ends

    cdef int room_for_strings(self, Strings* column, str name, int64_t rows, int64_t room) except -1:
        column.room = room
        column.validity = self.room_for_bits(name + ".validity", rows, 0xFF)
        column.ends = self.room_for_ends(name + ".ends", rows)
        column.data = self.room_for(name + ".data", room)
        return 0

    cdef int take(self, dict parts, str name, int64_t used_bytes) except -1:
        cdef Output output = self.outputs.get(name)
        if output is not None:
            parts[name] = (output.target, used_bytes)
        return 0

    cdef int take_strings(self, dict parts, Strings* column, str name, int64_t rows) except -1:
        if column.nulls:
            self.take(parts, name + ".validity", bits_size(rows))
        self.take(parts, name + ".ends", 4 * (rows + 1))
        self.take(parts, name + ".data", column.used)
        return 0
