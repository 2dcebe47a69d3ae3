# cython: language_level=3, auto_pickle=False, autotestdict=False
"""The last offset of each key in the dirty part of a log, in memory of a fixed size.

Keys are known by fingerprints of 128 bits alone, made with a secret seed: two keys that share one would be taken for
the same, and no producer can choose such keys. The choice of batches, and dropping records, are left to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cython cimport final
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from storage.errors import MalformedRecordsError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.pinned_buffer cimport PinnedBuffer
from storage.record.kernel.walk cimport BatchFrame

cdef extern from *:
    """
    #include <stddef.h>
    #include <sys/mman.h>
    /* Zeros that take memory only where they are written to; NULL if there is no room. Large pages, where the system
     * has some, save most of the time that it takes to find a slot. */
    static void *kfs_map_zeros(size_t size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return NULL;
    #ifdef MADV_HUGEPAGE
        (void)madvise(memory, size, MADV_HUGEPAGE);
    #endif
        return memory;
    }
    static void kfs_unmap(void *memory, size_t size) { (void)munmap(memory, size); }
    """
    void* map_zeros "kfs_map_zeros"(size_t size) noexcept nogil
    void unmap "kfs_unmap"(void* memory, size_t size) noexcept nogil

cdef enum:
    SEED_SIZE = 16
    TAKEN = 0
    FULL = 1
    DAMAGED = -1

SLOT_BYTES = sizeof(Slot)


@final
cdef class OffsetMap:
    """A table of `memory_bytes` that takes keys until its slots are filled to the load factor: `keys_max` of them.

    `latest_offset` is the offset up to which the log has been taken in, -1 at first.
    """

    def __cinit__(self, int64_t memory_bytes, double load_factor, bytes seed not None):
        if memory_bytes < 0 or not 0 <= load_factor <= 1 or len(seed) != SEED_SIZE:
            raise ValueError("the memory must not be negative, the load be from 0 to 1, and the seed have 16 bytes")
        self.slots = memory_bytes // <int64_t>sizeof(Slot)
        # A slot has to stay free, or the search for a key that is not there would not end.
        self.keys_max = max(min(<int64_t>(self.slots * load_factor), self.slots - 1), 0)
        self.latest_offset = -1
        self.low = little_endian(<const uint8_t*>PyBytes_AS_STRING(seed))
        self.high = little_endian(<const uint8_t*>PyBytes_AS_STRING(seed) + 8)
        self.table_bytes = max(self.slots, 1) * sizeof(Slot)
        self.table = <Slot*>map_zeros(self.table_bytes)
        if self.table == NULL:
            raise MemoryError(f"there is no memory for {self.slots} slots")

    def __dealloc__(self):
        if self.table != NULL:
            unmap(self.table, self.table_bytes)

    cdef Slot* slot_of(self, Fingerprint sought) noexcept nogil:
        """The slot of what has this fingerprint, or the free one that it would get."""
        cdef Slot* slot = self.first_slot(sought)
        cdef Slot* limit = self.table + self.slots
        while slot.end and (slot.fingerprint.low != sought.low or slot.fingerprint.high != sought.high):
            slot += 1
            if slot == limit:
                slot = self.table
        return slot

    cdef int64_t last_offset(self, Fingerprint sought) noexcept nogil:
        """The last offset of the key; -1 if it is not there."""
        return self.slot_of(sought).end - 1

    cdef bint put(self, Fingerprint made, int64_t offset) noexcept nogil:
        """Return True if there was room. As in Kafka, even a known key needs some, so that rounds end at the same place."""
        cdef Slot* slot
        if self.count >= self.keys_max:
            return False
        slot = self.slot_of(made)
        self.count += slot.end == 0
        slot.fingerprint = made
        slot.end = offset + 1
        self.latest_offset = offset
        return True

    cdef int take(
        self, const uint8_t* at, const uint8_t* end, int64_t count, int64_t base, int64_t last, int64_t first
    ) noexcept nogil:
        # Slots lie anywhere in memory: each is asked for some records before it is needed.
        cdef Fingerprint[AHEAD] made
        cdef int64_t[AHEAD] offsets
        cdef wire.Span span
        cdef int64_t index, offset, waiting = 0, each
        for index in range(count):
            if wire.read_record(&at, end, &span):
                return DAMAGED
            offset = wire.add64(base, span.offset_delta)
            if not base <= offset <= last:
                return DAMAGED
            if span.key_size >= 0 and offset >= first:
                made[waiting] = self.fingerprint(span.key, span.key_size)
                self.fetch(made[waiting])
                offsets[waiting] = offset
                waiting += 1
            if waiting == AHEAD or index == count - 1:
                for each in range(waiting):
                    if not self.put(made[each], offsets[each]):
                        return FULL
                waiting = 0
        return TAKEN if at == end else DAMAGED

    def fill(self, BatchFrame batch not None, records_data, int64_t first_offset):
        """Take in the keys of a batch from an offset on. Returns True if there was room for all of them.

        If the batch is compressed, `records_data` has its records. Without room, `latest_offset` is that of the last
        record taken in. Raises `MalformedRecordsError` if the records do not parse, or have offsets that their batch
        does not.
        """
        cdef const uint8_t* at = batch.data() + wire.HEADER_SIZE
        cdef const uint8_t* end = batch.data() + batch.size_bytes
        cdef int64_t count = batch.count, base = batch.base_offset
        cdef int64_t last = wire.add64(base, batch.last_offset_delta)
        cdef PinnedBuffer buffer
        cdef int result = DAMAGED
        if records_data is not None:
            buffer = PinnedBuffer(records_data)
            at, end = buffer.data, buffer.data + buffer.size
        if count == 0:
            at = end  # of an empty batch nothing is looked at, as on the JVM
        if 0 <= base <= last < INT64_MAX and count >= 0:
            if end - at < limits.UNLOCKED_BYTES_MIN:
                result = self.take(at, end, count, base, last, first_offset)
            else:
                with nogil:
                    result = self.take(at, end, count, base, last, first_offset)
        if result == DAMAGED:
            raise MalformedRecordsError(
                f"the batch does not hold exactly {count} records within its offsets",
                position=batch.position,
                offset=batch.base_offset,
            )
        if result == TAKEN and last >= first_offset:
            self.latest_offset = last
        return result == TAKEN

    def add(self, bytes key not None, int64_t offset):
        """Take in one key, whose offset is above all others. Returns True if there was room for it."""
        if not 0 <= offset < INT64_MAX:
            raise MalformedRecordsError("no record has this offset", offset=offset)
        return self.put(self.fingerprint(<const uint8_t*>PyBytes_AS_STRING(key), len(key)), offset)

    def find(self, bytes key not None):
        """The last offset of the key; -1 if it is not there."""
        return self.last_offset(self.fingerprint(<const uint8_t*>PyBytes_AS_STRING(key), len(key)))

    def advance(self, int64_t offset):
        """Say that the log has been taken in up to this offset."""
        self.latest_offset = offset


cdef uint64_t little_endian(const uint8_t* data) noexcept:
    cdef uint64_t word = 0
    cdef int index
    for index in range(8):
        word |= <uint64_t>data[index] << (8 * index)
    return word


def fingerprint(bytes seed not None, data):
    """The fingerprint as its definition writes it: 16 bytes."""
    cdef PinnedBuffer buffer = PinnedBuffer(data)
    cdef Fingerprint found
    if len(seed) != SEED_SIZE:
        raise ValueError("the seed must have 16 bytes")
    found = siphash(
        little_endian(<const uint8_t*>PyBytes_AS_STRING(seed)),
        little_endian(<const uint8_t*>PyBytes_AS_STRING(seed) + 8),
        buffer.data,
        buffer.size,
    )
    return found.low.to_bytes(8, "little") + found.high.to_bytes(8, "little")
