# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Selecting the records of a batch that a cleaner keeps, and writing those alone.

By the map of offsets a record that it has not come to is kept; of the others those that are the last of their key, less
the tombstones that need be kept no longer. What the map must hold, and when tombstones may go, is left to the caller.
"""

from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from storage.errors import InvalidRecordError, MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.batch cimport fetch_ahead
from storage.record.kernel.offset_map cimport AHEAD, Fingerprint, OffsetMap
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.records_data cimport RecordsData, new_records_data
from storage.record.kernel.walk cimport BatchFrame

cdef enum:
    MORE_PER_RECORD = 16  # by how much a record may grow if its timestamp counts from elsewhere
    DAMAGED = -1
    OUT_OF_MEMORY = -2

# A record that is about to be judged.
cdef struct Sifted:
    wire.Bytes start
    wire.Bytes end
    int64_t offset
    int64_t timestamp
    Fingerprint fingerprint
    bint has_key
    bint has_value
    bint is_known

# Adjacent records that are all kept.
cdef struct Run:
    wire.Bytes start
    wire.Bytes end


@final
cdef class RetainedRecords:
    """The records of a batch that a cleaner keeps, and the number of those dropped for each reason.

    `keyless` records have no key; `expired` are tombstones. Of those kept, `tombstones` have no value, the first
    has `first_timestamp`, and `max_timestamp` is the largest, -1 for none.
    """

    cdef readonly int64_t read
    cdef readonly int64_t kept
    cdef readonly int64_t superseded
    cdef readonly int64_t keyless
    cdef readonly int64_t expired
    cdef readonly int64_t tombstones
    cdef readonly int64_t first_timestamp
    cdef readonly int64_t max_timestamp
    cdef PinnedBuffer buffer
    cdef Run* runs
    cdef int64_t runs_count
    cdef int64_t runs_room
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint has_append_time

    def __cinit__(self):
        self.first_timestamp = self.max_timestamp = wire.NO_TIMESTAMP

    def __dealloc__(self):
        free(self.runs)

    cdef int sift(
        self, wire.Bytes at, wire.Bytes end, BatchFrame batch, OffsetMap offsets, bint keep_tombstones
    ) noexcept nogil:
        """0 if the data has exactly the records that the batch declares, at offsets of the batch."""
        cdef Sifted[AHEAD] waiting
        cdef Sifted* next
        cdef wire.Span span
        cdef int64_t index, timestamp, count = 0, each
        cdef int64_t base = batch.base_offset, last = wire.add64(base, batch.last_offset_delta)
        cdef int64_t known_end = -1 if offsets is None else offsets.latest_offset
        for index in range(batch.count):
            next = &waiting[count]
            next.start = at
            if wire.read_record(&at, end, &span):
                return DAMAGED
            # Of long records the processor itself does not see early enough where the next one begins.
            fetch_ahead(next.start, at)
            next.end = at
            next.offset = wire.add64(base, span.offset_delta)
            if not base <= next.offset <= last:
                return DAMAGED
            timestamp = self.base_timestamp
            next.timestamp = self.append_time if self.has_append_time else wire.add64(timestamp, span.timestamp_delta)
            next.has_key = span.key_size >= 0
            next.has_value = span.value_size >= 0
            next.is_known = next.offset <= known_end
            if next.is_known and next.has_key:
                next.fingerprint = offsets.fingerprint(span.key, span.key_size)
                offsets.fetch(next.fingerprint)
            count += 1
            if count == AHEAD or index == batch.count - 1:
                for each in range(count):
                    if self.judge(&waiting[each], offsets, keep_tombstones):
                        return OUT_OF_MEMORY
                count = 0
        self.read = batch.count
        return 0 if at == end else DAMAGED

    cdef inline int judge(self, Sifted* record, OffsetMap offsets, bint keep_tombstones) noexcept nogil:
        if record.is_known:
            if not record.has_key:
                self.keyless += 1
                return 0
            if record.offset < offsets.last_offset(record.fingerprint):
                self.superseded += 1
                return 0
            if not record.has_value and not keep_tombstones:
                self.expired += 1
                return 0
        if self.kept == 0:
            self.first_timestamp = record.timestamp
        self.max_timestamp = max(self.max_timestamp, record.timestamp)
        self.tombstones += not record.has_value
        self.kept += 1
        if self.runs_count and self.runs[self.runs_count - 1].end == record.start:
            self.runs[self.runs_count - 1].end = record.end
            return 0
        return self.add_run(record.start, record.end)

    cdef int add_run(self, wire.Bytes start, wire.Bytes end) noexcept nogil:
        cdef int64_t room = max(2 * self.runs_room, <int64_t>16)
        cdef Run* grown
        if self.runs_count == self.runs_room:
            grown = <Run*>realloc(self.runs, room * sizeof(Run))
            if grown == NULL:
                return OUT_OF_MEMORY
            self.runs = grown
            self.runs_room = room
        self.runs[self.runs_count].start = start
        self.runs[self.runs_count].end = end
        self.runs_count += 1
        return 0

    def records_data(self, int64_t base_timestamp):
        """The records that are kept, their timestamps counting from this one.

        Where they do so already, they stay as they are to the last byte.
        """
        cdef RecordsData records_data = new_records_data(INT64_MAX)
        cdef int64_t index, needed = 0
        cdef uint8_t* at
        cdef bint is_same = base_timestamp == self.base_timestamp and not self.has_append_time
        for index in range(self.runs_count):
            needed += self.runs[index].end - self.runs[index].start
        records_data.resize(wire.HEADER_SIZE + needed + (0 if is_same else MORE_PER_RECORD * self.kept))
        at = records_data.start + wire.HEADER_SIZE
        if is_same:
            for index in range(self.runs_count):
                needed = self.runs[index].end - self.runs[index].start
                memcpy(at, self.runs[index].start, needed)
                at += needed
        else:
            for index in range(self.runs_count):
                at = self.rewrite(at, self.runs[index], base_timestamp)
        if at - records_data.start > limits.LARGEST_BATCH:
            raise InvalidRecordError(f"{self.kept} records do not fit into a batch")
        records_data.count = <int>self.kept
        records_data.base_timestamp = base_timestamp
        records_data.max_timestamp = self.max_timestamp
        records_data.stop = self.kept
        records_data.finish(at)
        return records_data

    cdef uint8_t* rewrite(self, uint8_t* at, Run run, int64_t base_timestamp) noexcept:
        """Write a run's records, which have been checked, with timestamps that count from another."""
        cdef wire.Span span
        cdef wire.Bytes source = run.start
        cdef wire.Bytes fields
        cdef int64_t timestamp, delta
        cdef int32_t ignored = 0
        cdef int64_t ignored_long = 0
        while source != run.end:
            fields = source
            wire.read_checked_record(&source, run.end, &span)
            wire.read_varint32(&fields, source, &ignored)
            fields += 1  # the record's attributes: none is defined
            wire.read_varint64(&fields, source, &ignored_long)
            wire.read_varint32(&fields, source, &ignored)
            timestamp = self.append_time if self.has_append_time else wire.add64(self.base_timestamp, span.timestamp_delta)
            delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp)
            at = wire.write_varint(
                at, 1 + wire.varint_size(delta) + wire.varint_size(span.offset_delta) + (source - fields)
            )
            at[0] = 0
            at = wire.write_varint(at + 1, delta)
            at = wire.write_varint(at, span.offset_delta)
            memcpy(at, fields, source - fields)
            at += source - fields
        return at


def select_retained_records(BatchFrame batch not None, records_data, OffsetMap offsets, *, bint keep_tombstones):
    """Select the records that a batch keeps; without a map, all of them. A compressed batch's are in `records_data`.

    Raises `MalformedRecordsError` if the records do not parse, or have offsets that their batch does not.
    """
    cdef RetainedRecords found = RetainedRecords.__new__(RetainedRecords)
    cdef wire.Bytes at = batch.data() + wire.HEADER_SIZE
    cdef wire.Bytes end = batch.data() + batch.size_bytes
    cdef int result = DAMAGED
    found.buffer = batch.buffer
    if records_data is not None:
        found.buffer = PinnedBuffer(records_data)
        at, end = found.buffer.data, found.buffer.data + found.buffer.size
    if batch.count == 0:
        at = end  # of an empty batch nothing is looked at, as on the JVM
    found.base_timestamp = batch.base_timestamp
    found.append_time = batch.max_timestamp
    found.has_append_time = batch.attributes & wire.LOG_APPEND_TIME_BIT != 0
    if batch.count >= 0 and 0 <= batch.base_offset:
        if end - at < limits.UNLOCKED_BYTES_MIN:
            result = found.sift(at, end, batch, offsets, keep_tombstones)
        else:
            with nogil:
                result = found.sift(at, end, batch, offsets, keep_tombstones)
    if result == OUT_OF_MEMORY:
        raise MemoryError("there is no memory for the places of records that are kept")
    if result == DAMAGED:
        raise MalformedRecordsError(
            f"the batch does not hold exactly {batch.count} records within its offsets",
            position=batch.position,
            offset=batch.base_offset,
        )
    return found
