# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Walking a run of batches: from one frame to the next, all magics, nothing decompressed.

A frame is a batch's bytes and header fields. `Walk` promises that every frame it yields lies wholly within the
buffer and that its lengths agree with each other; checksums and records are the caller's to check.
"""

from cython cimport final
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from storage.errors import FramingError
from storage.record.kernel cimport limits, wire
from storage.record.kernel.crc32c cimport checksum
from storage.record.kernel.pinned_buffer cimport PinnedBuffer

cdef enum:
    SMALLEST_FRAME = 17  # up to and with the magic byte
    SMALLEST_LENGTH = 14  # what a v0 entry without key and value declares
    ENTRY_CRC_AT = 12
    ENTRY_ATTRIBUTES_AT = 17
    ENTRY_TIMESTAMP_AT = 18
    MALFORMED = -1
    CRC_COVERS_FROM = 21

# What a byte adds to the CRC-32 of an entry.
cdef uint32_t[256] ENTRY_CRCS


cdef void make_entry_crcs() noexcept:
    cdef uint32_t number, crc
    cdef int bit
    for number in range(256):
        crc = number
        for bit in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        ENTRY_CRCS[number] = crc


make_entry_crcs()


cdef inline uint32_t entry_checksum(const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint32_t crc = 0xFFFFFFFF
    cdef int64_t index
    for index in range(size):
        crc = crc >> 8 ^ ENTRY_CRCS[(crc ^ data[index]) & 0xFF]
    return ~crc


def count_frames(source, int64_t many):
    """Return how many frames there are by their lengths alone, up to one more than `many`."""
    cdef PinnedBuffer buffer = PinnedBuffer(source)
    cdef int64_t count = 0, length
    cdef Py_ssize_t at = 0
    with nogil:
        while count <= many and buffer.size - at > SMALLEST_FRAME:
            length = <int32_t>wire.load32(buffer.data + at + wire.LENGTH_AT)
            if length < SMALLEST_LENGTH or length > buffer.size - at - wire.LOG_OVERHEAD:
                break
            at += length + wire.LOG_OVERHEAD
            count += 1
    return count


cdef inline bint has_checksum(const uint8_t* data, int64_t size) noexcept nogil:
    """True if a whole frame has the checksum that it says."""
    if data[wire.MAGIC_AT] == 2:
        return size >= wire.HEADER_SIZE and wire.load32(data + wire.CRC_AT) == checksum(
            data + CRC_COVERS_FROM, size - CRC_COVERS_FROM
        )
    return wire.load32(data + ENTRY_CRC_AT) == entry_checksum(data + wire.MAGIC_AT, size - wire.MAGIC_AT)


def next_header(
    window, Py_ssize_t start, int64_t end, *, int64_t offset_min, int64_t offset_max, int64_t left_bytes, int64_t growth
):
    """Return where from `start` on a batch seems to begin, or -1, and how many bytes were looked at for checksums.

    It has an offset of these, ends before `end`, which may be after the window, and has the right checksum if it ends
    in the window. One that has more bytes than are left is passed over: `left_bytes`, and `growth` for each byte
    passed, less those looked at.
    """
    cdef PinnedBuffer buffer = PinnedBuffer(window)
    cdef const uint8_t* data
    cdef int64_t looked_at = 0, size, offset
    cdef Py_ssize_t at, found = -1
    with nogil:
        for at in range(start, buffer.size - SMALLEST_FRAME):
            data = buffer.data + at
            if data[wire.MAGIC_AT] > 2:
                continue
            size = <int64_t><int32_t>wire.load32(data + wire.LENGTH_AT) + wire.LOG_OVERHEAD
            if size < SMALLEST_LENGTH + wire.LOG_OVERHEAD or size > end - at:
                continue
            offset = <int64_t>wire.load64(data)
            if not offset_min <= offset <= offset_max or size > left_bytes + growth * (at - start) - looked_at:
                continue
            if size <= buffer.size - at:
                looked_at += size
                if not has_checksum(data, size):
                    continue
            found = at
            break
    return found, looked_at


cdef class Frame:
    """One batch or legacy entry: where it lies and what its header says. Frozen."""

    cdef const uint8_t* data(self) noexcept:
        return self.buffer.data + self.start

    def view(self, Py_ssize_t start, Py_ssize_t end):
        """The batch's bytes from start to end (counted from its first byte), without a copy."""
        if not 0 <= start <= end <= self.size_bytes:
            raise IndexError(f"{start}..{end} is not within a batch of {self.size_bytes} bytes")
        return self.buffer.view(self.start + start, self.start + end)


cdef class BatchFrame(Frame):
    """The header of a v2 batch, as its fields are named in `storage.record.layout`."""

    @property
    def last_offset(self):
        """The last offset the batch accounts for, whether or not a record still has it."""
        return wire.add64(self.base_offset, self.last_offset_delta)

    @property
    def last_sequence(self):
        """The sequence number of the last record the batch was written with, or -1."""
        if self.base_sequence == wire.NO_SEQUENCE:
            return wire.NO_SEQUENCE
        return wire.sequence_after(self.base_sequence, self.last_offset_delta)

    def checksum(self):
        """The CRC-32C of what the header's `crc` covers, computed now."""
        return self.computed_crc()

    @property
    def crc_matches(self):
        """True if the bytes have the checksum that the header carries."""
        return self.computed_crc() == self.crc

    cdef uint32_t computed_crc(self) noexcept:
        cdef const uint8_t* covered = self.data() + wire.ATTRIBUTES_AT
        cdef size_t covered_bytes = self.size_bytes - wire.ATTRIBUTES_AT
        cdef uint32_t result
        if covered_bytes < limits.UNLOCKED_BYTES_MIN:
            return checksum(covered, covered_bytes)
        with nogil:
            result = checksum(covered, covered_bytes)
        return result

    def with_offset(self, *, int64_t base_offset, int32_t leader_epoch):
        """The batch at another offset of a log. Its bytes are the same, and keep the old offset."""
        cdef BatchFrame frame = type(self).__new__(type(self))
        frame.buffer = self.buffer
        frame.start = self.start
        frame.position = self.position
        frame.size_bytes = self.size_bytes
        frame.magic = self.magic
        read_header(frame)
        frame.base_offset = base_offset
        frame.leader_epoch = leader_epoch
        return frame


cdef void read_header(BatchFrame frame) noexcept:
    """Take the fields of a frame that has its place from its bytes."""
    cdef const uint8_t* data = frame.data()
    frame.attributes = <int16_t>wire.load16(data + wire.ATTRIBUTES_AT)
    frame.crc = wire.load32(data + wire.CRC_AT)
    frame.base_offset = <int64_t>wire.load64(data)
    frame.leader_epoch = <int32_t>wire.load32(data + wire.LEADER_EPOCH_AT)
    frame.last_offset_delta = <int32_t>wire.load32(data + wire.LAST_OFFSET_DELTA_AT)
    frame.base_timestamp = <int64_t>wire.load64(data + wire.BASE_TIMESTAMP_AT)
    frame.max_timestamp = <int64_t>wire.load64(data + wire.MAX_TIMESTAMP_AT)
    frame.producer_id = <int64_t>wire.load64(data + wire.PRODUCER_ID_AT)
    frame.producer_epoch = <int16_t>wire.load16(data + wire.PRODUCER_EPOCH_AT)
    frame.base_sequence = <int32_t>wire.load32(data + wire.BASE_SEQUENCE_AT)
    frame.count = <int32_t>wire.load32(data + wire.COUNT_AT)


cdef class EntryFrame(Frame):
    """One entry of a v0 or v1 message set.

    An entry whose key or value overruns it is still a frame, so that the walk can go on after it; asking for its record
    is an error.
    """


@final
cdef class Walk:
    """Iterates over the frames of `source` from `start`, in order, as `batch_type` and `entry_type` objects.

    It ends at the first place where no whole frame follows: `position` is then that place (as `origin` counts),
    and `missing_bytes` how much more must follow for one frame more, as far as that can be told (0 at a clean
    end). A length or magic that cannot be right raises `FramingError` there. `origin` is the position in the file
    of the buffer's first byte.
    """

    cdef PinnedBuffer buffer
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef int64_t origin
    cdef type batch_type
    cdef type entry_type

    def __init__(self, source, type batch_type, type entry_type, *, Py_ssize_t start=0, end=None, int64_t origin=0):
        if not (issubclass(batch_type, BatchFrame) and issubclass(entry_type, EntryFrame)):
            raise TypeError("frames are made of subclasses of BatchFrame and EntryFrame")
        self.buffer = source if isinstance(source, PinnedBuffer) else PinnedBuffer(source)
        self.end = self.buffer.size if end is None else end
        if not 0 <= start <= self.end <= self.buffer.size:
            raise IndexError(f"{start}..{self.end} is not within a buffer of {self.buffer.size} bytes")
        self.at = start
        self.origin = origin
        self.batch_type = batch_type
        self.entry_type = entry_type

    def __iter__(self):
        return self

    @property
    def position(self):
        """The position of the next frame, or where it would begin."""
        return self.origin + self.at

    @property
    def missing_bytes(self):
        """The bytes that the next frame lacks at least; 0 if nothing follows."""
        cdef Py_ssize_t left = self.end - self.at
        cdef int64_t length
        if left == 0:
            return 0
        if left <= SMALLEST_FRAME:  # less than nothing where frames were passed over that the buffer does not hold
            return SMALLEST_FRAME + 1 - left
        length = <int32_t>wire.load32(self.buffer.data + self.at + wire.LENGTH_AT)
        return max(length + wire.LOG_OVERHEAD - left, 0)

    def __next__(self):
        cdef const uint8_t* data = self.buffer.data + self.at
        cdef Py_ssize_t left = self.end - self.at
        cdef int32_t length
        cdef int8_t magic
        # Kafka's readers want one byte more than a header up to its magic.
        if left <= SMALLEST_FRAME:
            raise StopIteration
        length = <int32_t>wire.load32(data + wire.LENGTH_AT)
        if length < SMALLEST_LENGTH:
            raise FramingError(
                f"the batch length {length} is below the smallest possible, {SMALLEST_LENGTH}", position=self.position
            )
        if length > left - wire.LOG_OVERHEAD:
            raise StopIteration
        magic = <int8_t>data[wire.MAGIC_AT]
        if magic == 2:
            return self.next_batch(length)
        if magic == 0 or magic == 1:
            return self.next_entry(data, length, magic)
        raise FramingError(f"the magic byte is {magic}, and only 0, 1 and 2 are known", position=self.position)

    @property
    def next_last_offset(self):
        """The last offset of the next frame, only whose header has to be in the buffer; None without a valid header."""
        cdef int64_t last_offset
        return last_offset if self.next_size(&last_offset) else None

    def pass_over(self, int64_t offset, int64_t end):
        """Go on with the first frame that does not end below the offset, or that reaches beyond the position `end`.

        Of the frames before it only the headers have to be in the buffer; `position` may come to lie beyond the buffer.
        The walk stays in front of a header that is not all there, or that cannot be right.
        """
        cdef int64_t size, last_offset
        while True:
            size = self.next_size(&last_offset)
            if size == 0 or last_offset >= offset or size > end - self.origin - self.at:
                return
            self.at += size

    cdef int64_t next_size(self, int64_t* last_offset) noexcept:
        """Return the size of the next frame; 0 if its header is not all there, or cannot be right."""
        cdef const uint8_t* data = self.buffer.data + self.at
        cdef Py_ssize_t left = self.end - self.at
        cdef int64_t size
        cdef int8_t magic
        if left <= SMALLEST_FRAME:
            return 0
        size = <int64_t><int32_t>wire.load32(data + wire.LENGTH_AT) + wire.LOG_OVERHEAD
        magic = <int8_t>data[wire.MAGIC_AT]
        last_offset[0] = <int64_t>wire.load64(data)
        if magic == 2 and left >= wire.HEADER_SIZE:
            last_offset[0] = wire.add64(last_offset[0], <int32_t>wire.load32(data + wire.LAST_OFFSET_DELTA_AT))
            return size if size >= wire.HEADER_SIZE else 0
        return size if 0 <= magic <= 1 and size >= SMALLEST_LENGTH + wire.LOG_OVERHEAD else 0

    cdef BatchFrame next_batch(self, int32_t length):
        cdef BatchFrame frame
        if length < wire.HEADER_SIZE - wire.LOG_OVERHEAD:
            raise FramingError(f"the batch length {length} has no room for a v2 header", position=self.position)
        frame = self.batch_type.__new__(self.batch_type)
        self.bind(frame, length, 2)
        read_header(frame)
        return frame

    cdef EntryFrame next_entry(self, const uint8_t* data, int32_t length, int8_t magic):
        cdef EntryFrame frame = self.entry_type.__new__(self.entry_type)
        cdef Py_ssize_t size = <Py_ssize_t>length + wire.LOG_OVERHEAD
        cdef Py_ssize_t key_at = ENTRY_TIMESTAMP_AT + (8 if magic == 1 else 0) + 4
        cdef int64_t value_at
        frame.offset = <int64_t>wire.load64(data)
        frame.crc = wire.load32(data + ENTRY_CRC_AT)
        frame.attributes = <int8_t>data[ENTRY_ATTRIBUTES_AT]
        frame.timestamp = wire.NO_TIMESTAMP
        frame.key_size = frame.value_size = frame.key_start = frame.value_start = MALFORMED
        if key_at + 4 <= size:
            if magic == 1:
                frame.timestamp = <int64_t>wire.load64(data + ENTRY_TIMESTAMP_AT)
            frame.key_size = <int32_t>wire.load32(data + key_at - 4)
            value_at = key_at + max(<int64_t>frame.key_size, 0) + 4
            if value_at <= size:
                frame.value_size = <int32_t>wire.load32(data + value_at - 4)
                if value_at + max(<int64_t>frame.value_size, 0) <= size:
                    frame.key_start = self.at + key_at
                    frame.value_start = self.at + value_at
        self.bind(frame, length, magic)
        return frame

    cdef void bind(self, Frame frame, int32_t length, int8_t magic):
        """Make the frame one of the bytes at hand, and go on after it."""
        frame.buffer = self.buffer
        frame.start = self.at
        frame.position = self.origin + self.at
        frame.size_bytes = <Py_ssize_t>length + wire.LOG_OVERHEAD
        frame.magic = magic
        self.at += frame.size_bytes
