# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Summarizing a batch's records for the log that takes them: one pass, and no object for any record."""

from cython cimport final
from libc.stdint cimport int64_t

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.walk cimport BatchFrame


@final
cdef class RecordsSummary:
    """All records of a batch, each checked to its last byte.

    Timestamps are the records' own, whatever the batch says of append time: `max_timestamp` is the largest, and
    `min_timestamp` the smallest of those that are not -1; both are -1 if there is none. `keyless` counts the null
    keys, `headers` all headers and `most_headers` those of the record that has most, and `is_consecutive` says whether the records have the offset deltas 0, 1, 2 and so on.
    """

    cdef int look(self, wire.Bytes at, wire.Bytes end, int64_t base_timestamp, int64_t count) noexcept nogil:
        """0 if exactly so many records are there."""
        cdef wire.Span span
        cdef int64_t index, timestamp, keyless = 0, headers = 0, most_headers = 0
        cdef int64_t smallest = wire.NO_TIMESTAMP, largest = wire.NO_TIMESTAMP
        cdef bint consecutive = True
        for index in range(count):
            if wire.read_record(&at, end, &span):
                return -1
            timestamp = wire.add64(base_timestamp, span.timestamp_delta)
            largest = max(largest, timestamp)
            if timestamp != wire.NO_TIMESTAMP and (smallest == wire.NO_TIMESTAMP or timestamp < smallest):
                smallest = timestamp
            keyless += span.key_size < 0
            headers += span.header_count
            most_headers = max(most_headers, <int64_t>span.header_count)
            consecutive &= span.offset_delta == index
        self.min_timestamp = smallest
        self.max_timestamp = largest
        self.keyless = keyless
        self.headers = headers
        self.most_headers = most_headers
        self.is_consecutive = consecutive
        return 0 if at == end else -1


def summarize_records(BatchFrame batch not None, records_data=None):
    """Summarize a batch's records, which are in `records_data` if the batch is compressed."""
    cdef RecordsSummary found = RecordsSummary.__new__(RecordsSummary)
    cdef wire.Bytes at = batch.data() + wire.HEADER_SIZE
    cdef wire.Bytes end = batch.data() + batch.size_bytes
    cdef PinnedBuffer buffer
    cdef int64_t count = batch.count, base_timestamp = batch.base_timestamp
    cdef int failed
    if records_data is not None:
        buffer = PinnedBuffer(records_data)
        at, end = buffer.data, buffer.data + buffer.size
    if end - at < limits.UNLOCKED_BYTES_MIN:
        failed = found.look(at, end, base_timestamp, count)
    else:
        with nogil:
            failed = found.look(at, end, base_timestamp, count)
    if failed or count < 0:
        raise MalformedRecordsError(
            f"the batch does not hold exactly {count} records", position=batch.position
        )
    return found
