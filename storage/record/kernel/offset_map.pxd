from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "siphash.h":
    ctypedef struct Fingerprint "kfs_fingerprint":
        uint64_t low
        uint64_t high
    Fingerprint siphash "kfs_siphash"(uint64_t low, uint64_t high, const uint8_t* data, size_t size) noexcept nogil
    uint64_t scaled "kfs_scaled"(uint64_t low, uint64_t slots) noexcept nogil
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    AHEAD = 16  # how many records are looked at before the slot of the first of them is needed

cdef struct Slot:
    Fingerprint fingerprint
    int64_t end  # the key's last offset and one more, so that 0 is a free slot

cdef class OffsetMap:
    cdef Slot* table
    cdef size_t table_bytes
    cdef uint64_t low
    cdef uint64_t high
    cdef readonly int64_t slots
    cdef readonly int64_t keys_max
    cdef readonly int64_t count
    cdef readonly int64_t latest_offset
    cdef Slot* slot_of(self, Fingerprint sought) noexcept nogil
    cdef int64_t last_offset(self, Fingerprint sought) noexcept nogil
    cdef bint put(self, Fingerprint made, int64_t offset) noexcept nogil
    cdef int take(self, const uint8_t* at, const uint8_t* end, int64_t count, int64_t base, int64_t last, int64_t first) noexcept nogil

    cdef inline Fingerprint fingerprint(self, const uint8_t* key, size_t size) noexcept nogil:
        return siphash(self.low, self.high, key, size)

    cdef inline Slot* first_slot(self, Fingerprint sought) noexcept nogil:
        """The slot at which the search for a fingerprint begins."""
        return self.table + scaled(sought.low, <uint64_t>self.slots)

    cdef inline void fetch(self, Fingerprint sought) noexcept nogil:
        """Have the processor bring the place where the search begins, which takes as long as many records do."""
        prefetch(self.first_slot(sought))
