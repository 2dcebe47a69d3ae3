# cython: language_level=3, auto_pickle=False, autotestdict=False
"""The lines of checkpoints, parsed once: a topic, a partition and an offset each, or a leader epoch and its offset.

A checkpoint may have a million lines of what is not there: nothing is made of a line before it is asked for. Partitions
are found by a keyed hash, so that no lines can be chosen to collide.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cython cimport final
from libc.stdint cimport INT32_MAX, INT32_MIN, UINT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from *:
    void fetch "__builtin_prefetch"(const void* place) noexcept nogil

cdef extern from "siphash.h":
    ctypedef struct Fingerprint "kfs_fingerprint":
        uint64_t low
        uint64_t high
    Fingerprint siphash "kfs_siphash"(uint64_t low, uint64_t high, const uint8_t* data, size_t size) noexcept nogil

cdef enum:
    SHORTEST_LINE = 6
    SHORTEST_EPOCH_LINE = 4
    LINE_CHARACTERS_MAX = 1024  # room for the name of a topic, two numbers and some blanks
    DIGITS_MAX = 20
    AHEAD = 16


cdef uint64_t TENTH_MAX = 1844674407370955161  # of UINT64_MAX


cdef struct Entry:
    int64_t offset
    uint32_t topic_at
    uint32_t topic_size
    int32_t partition


cdef inline bint is_blank(uint8_t character) noexcept nogil:
    return character == c" " or character == c"\t" or character == c"\v" or character == c"\f"


cdef inline bint is_end(uint8_t character) noexcept nogil:
    return character == c"\n" or character == c"\r"


cdef const uint8_t* read_number(const uint8_t* at, const uint8_t* end, int bits, int64_t* number) noexcept nogil:
    """Read a number of so many bits; return the place after it, NULL if there is none."""
    cdef uint64_t value = 0, limit = (<uint64_t>1) << (bits - 1)
    cdef int digits = 0
    cdef bint is_negative = False
    cdef uint8_t digit
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        is_negative = at[0] == c"-"
        at += 1
    while at < end and c"0" <= at[0] <= c"9":
        digit = at[0] - c"0"
        digits += 1
        if digits > DIGITS_MAX or value > TENTH_MAX or (value == TENTH_MAX and digit > UINT64_MAX - 10 * TENTH_MAX):
            return NULL
        value = 10 * value + digit
        at += 1
    if digits == 0 or value > limit or (value == limit and not is_negative):
        return NULL
    number[0] = <int64_t>(0 - value) if is_negative else <int64_t>value
    return at


cdef const uint8_t* read_blanks(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return the place after one blank or more, NULL if there is none."""
    if at == NULL or at == end or not is_blank(at[0]):
        return NULL
    while at < end and is_blank(at[0]):
        at += 1
    return at


cdef int64_t ends_in(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return how many ends of lines there are at the most."""
    cdef int64_t ends = 0
    while at < end:
        ends += at[0] == c"\n" or at[0] == c"\r"
        at += 1
    return ends


cdef int64_t characters_in(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return how many characters there are of UTF-8."""
    cdef int64_t characters = 0
    while at < end:
        characters += at[0] & 0xC0 != 0x80
        at += 1
    return characters


cdef const uint8_t* end_of_line(const uint8_t* start, const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return the place where a line ends, after whose columns only blanks may follow; NULL if it is malformed."""
    while at != NULL and at < end and is_blank(at[0]):
        at += 1
    if at == NULL or (at < end and not is_end(at[0])):
        return NULL
    if at - start > LINE_CHARACTERS_MAX and characters_in(start, at) > LINE_CHARACTERS_MAX:
        return NULL
    return at


cdef const uint8_t* next_line(const uint8_t* line_end, const uint8_t* end) noexcept nogil:
    """Return the place where the next line begins, at the end or after it if there is none."""
    if line_end + 1 < end and line_end[0] == c"\r" and line_end[1] == c"\n":
        return line_end + 2
    return line_end + 1


cdef const uint8_t* read_line(const uint8_t* start, const uint8_t* end, Entry* entry) noexcept nogil:
    """Read a line; return the place where its end is, NULL if it is malformed."""
    cdef const uint8_t* at = start
    cdef int64_t partition
    while at < end and not is_blank(at[0]) and not is_end(at[0]):
        at += 1
    if at == start:
        return NULL
    entry.topic_size = <uint32_t>(at - start)
    at = read_blanks(at, end)
    if at == NULL:
        return NULL
    at = read_blanks(read_number(at, end, 32, &partition), end)
    if at == NULL:
        return NULL
    entry.partition = <int32_t>partition
    return end_of_line(start, read_number(at, end, 64, &entry.offset), end)


@final
cdef class OffsetTable:
    """The entries of the lines in the bytes of a file from a position on, in the order in which they are first named.

    Of several lines for one partition the last one counts. `lines` were read; if one is malformed `wrong_at` is where
    it begins, and no entries are to be used; otherwise it is -1.
    """

    cdef bytes data
    cdef const uint8_t* start  # of the data
    cdef const uint8_t* end
    cdef Entry* entries
    cdef uint32_t* slots  # the numbers of entries, from 1 on
    cdef uint64_t mask
    cdef uint64_t low
    cdef uint64_t high
    cdef Py_ssize_t count
    cdef readonly Py_ssize_t lines
    cdef readonly Py_ssize_t wrong_at

    def __cinit__(self, bytes data not None, Py_ssize_t start):
        cdef bytes seed = os.urandom(2 * sizeof(uint64_t))
        cdef Py_ssize_t lines_max
        self.data = data
        self.start = <const uint8_t*>PyBytes_AS_STRING(data)
        self.end = self.start + PyBytes_GET_SIZE(data)
        # The fewer slots there are the sooner they are found in the processor's caches.
        lines_max = min(ends_in(self.start + start, self.end), (len(data) - start) // SHORTEST_LINE) + 1
        memcpy(&self.low, PyBytes_AS_STRING(seed), sizeof(uint64_t))
        memcpy(&self.high, PyBytes_AS_STRING(seed) + sizeof(uint64_t), sizeof(uint64_t))
        self.mask = 15
        while self.mask < <uint64_t>(2 * lines_max):
            self.mask = 2 * self.mask + 1
        self.entries = <Entry*>PyMem_RawMalloc(lines_max * sizeof(Entry))
        self.slots = <uint32_t*>PyMem_RawMalloc((self.mask + 1) * sizeof(uint32_t))
        if self.entries == NULL or self.slots == NULL:
            raise MemoryError
        with nogil:
            memset(self.slots, 0, (self.mask + 1) * sizeof(uint32_t))
            self.wrong_at = self.read(start)

    def __dealloc__(self):
        PyMem_RawFree(self.entries)
        PyMem_RawFree(self.slots)

    def __len__(self):
        return self.count

    cdef Py_ssize_t read(self, Py_ssize_t start) noexcept nogil:
        """Read all lines; return where the first malformed one begins, -1 without one."""
        # Slots lie anywhere in memory: each is asked for some lines before it is needed.
        cdef Entry[AHEAD] waiting
        cdef uint64_t[AHEAD] indexes
        cdef const uint8_t* at = self.start + start
        cdef const uint8_t* line_end
        cdef int count = 0, each
        while at < self.end:
            waiting[count].topic_at = <uint32_t>(at - self.start)
            line_end = read_line(at, self.end, &waiting[count])
            if line_end == NULL:
                return at - self.start
            indexes[count] = self.index_of(at, waiting[count].topic_size, waiting[count].partition)
            fetch(&self.slots[indexes[count]])
            self.lines += 1
            count += 1
            at = next_line(line_end, self.end)
            if count == AHEAD or at >= self.end:
                for each in range(count):
                    self.put(&waiting[each], indexes[each])
                count = 0
        return -1

    cdef void put(self, const Entry* entry, uint64_t index) noexcept nogil:
        """Take in an entry, in the place of one of the same partition."""
        cdef uint32_t* slot = self.slot_of(
            self.start + entry.topic_at, entry.topic_size, entry.partition, index
        )
        if slot[0]:
            self.entries[slot[0] - 1].offset = entry.offset
        else:
            self.entries[self.count] = entry[0]
            self.count += 1
            slot[0] = <uint32_t>self.count

    cdef uint64_t index_of(self, const uint8_t* topic, Py_ssize_t size, int32_t partition) noexcept nogil:
        """Return where the search for a partition begins."""
        return siphash(self.low ^ <uint64_t>partition, self.high, topic, size).low & self.mask

    cdef uint32_t* slot_of(
        self, const uint8_t* topic, Py_ssize_t size, int32_t partition, uint64_t index
    ) noexcept nogil:
        """Return the slot of a partition, or the one that it would take."""
        cdef Entry* entry
        while self.slots[index]:
            entry = &self.entries[self.slots[index] - 1]
            if (
                entry.partition == partition
                and <Py_ssize_t>entry.topic_size == size
                and memcmp(self.start + entry.topic_at, topic, size) == 0
            ):
                break
            index = (index + 1) & self.mask
        return &self.slots[index]

    def find(self, str topic not None, int64_t partition):
        """Return the offset of a partition, None if no line names it."""
        cdef Py_ssize_t size
        cdef const char* name
        cdef uint32_t number
        if not INT32_MIN <= partition <= INT32_MAX:
            return None
        try:
            name = PyUnicode_AsUTF8AndSize(topic, &size)
        except UnicodeEncodeError:  # of a directory's name that is no text
            return None
        number = self.slot_of(
            <const uint8_t*>name,
            size,
            <int32_t>partition,
            self.index_of(<const uint8_t*>name, size, <int32_t>partition),
        )[0]
        return self.entries[number - 1].offset if number else None

    def entry(self, Py_ssize_t index):
        """Return the topic, the partition and the offset of an entry."""
        cdef Entry* entry
        if not 0 <= index < self.count:
            raise IndexError(index)
        entry = &self.entries[index]
        topic = self.data[entry.topic_at : entry.topic_at + entry.topic_size].decode()
        return topic, entry.partition, entry.offset


cdef struct EpochLine:
    int64_t epoch
    int64_t offset


@final
cdef class EpochTable:
    """The epochs in the bytes of a file from a position on, without those that a later line contradicts.

    Both epochs and offsets ascend. `lines` were read; if one is malformed `wrong_at` is where it begins, and no entries
    are to be used; otherwise it is -1.
    """

    cdef EpochLine* entries
    cdef Py_ssize_t count
    cdef readonly Py_ssize_t lines
    cdef readonly Py_ssize_t wrong_at

    def __cinit__(self, bytes data not None, Py_ssize_t start):
        cdef const uint8_t* beginning = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef const uint8_t* end = beginning + PyBytes_GET_SIZE(data)
        cdef const uint8_t* at = beginning + start
        self.entries = <EpochLine*>PyMem_RawMalloc(((len(data) - start) // SHORTEST_EPOCH_LINE + 1) * sizeof(EpochLine))
        if self.entries == NULL:
            raise MemoryError
        with nogil:
            at = self.read(at, end)
        self.wrong_at = -1 if at == NULL else at - beginning

    def __dealloc__(self):
        PyMem_RawFree(self.entries)

    def __len__(self):
        return self.count

    cdef const uint8_t* read(self, const uint8_t* at, const uint8_t* end) noexcept nogil:
        """Read all lines; return where the first malformed one begins, NULL without one."""
        cdef const uint8_t* line_end
        cdef EpochLine line
        cdef EpochLine* last
        while at < end:
            line_end = read_blanks(read_number(at, end, 32, &line.epoch), end)
            if line_end != NULL:
                line_end = end_of_line(at, read_number(line_end, end, 64, &line.offset), end)
            if line_end == NULL or line.epoch < 0 or line.offset < 0:
                return at
            self.lines += 1
            at = next_line(line_end, end)
            last = &self.entries[self.count - 1]
            if self.count and last.epoch == line.epoch and last.offset <= line.offset:
                continue
            while self.count and (last.epoch >= line.epoch or last.offset >= line.offset):
                self.count -= 1
                last -= 1
            self.entries[self.count] = line
            self.count += 1
        return NULL

    def entry(self, Py_ssize_t index):
        """Return an epoch and where it begins."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.entries[index].epoch, self.entries[index].offset
