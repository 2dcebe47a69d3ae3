# cython: language_level=3, auto_pickle=False, autotestdict=False
"""Records as the lines that kafka-dump-log prints, straight into bytes.

What stands in a line, and in which order, is the real tool's. Which records get one is the caller's to decide, and
what a control record says is for him to add.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from storage.record.kernel cimport text, wire
from storage.record.kernel.decode cimport Record
from storage.record.kernel.pinned_buffer import LeasedBuffer
from storage.record.kernel.writing cimport put, put_number

cdef enum:
    HEAD_ROOM = 256  # the fields before a record's headers: six numbers of at most 20 characters, and their names
    LARGE_RECORD = 262144  # whose headers may take long
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

# The JVM's decoder as an automaton, a step for each byte, because bytes that are no text come without any pattern
# that a processor could foresee. A state says which part of a character has been read, a class which role a byte plays.
cdef enum:
    STATES = 12
    CLASSES = 12

cdef struct Step:
    uint8_t next_state
    uint8_t taken_back  # bytes of a character that has turned out to be none
    uint8_t replacements  # written in their place, and in the byte's if it is not kept
    uint8_t kept  # 1 if the byte itself is written

cdef Step STEPS[STATES][CLASSES]
cdef uint8_t CLASS_OF[256]
cdef uint8_t PENDING[STATES]  # how many bytes of an unfinished character have been written

# Bytes to be printed as the text that the JVM takes them for.
cdef struct Printed:
    wire.Bytes data
    int32_t size
    int64_t printed_size
    bint is_text  # every byte belongs to a character


cdef void set_up_decoder():
    # A class is called by its first byte, and a state by the byte that led to it, or by what it waits for.
    cdef Step* step
    first_bytes = [0x00, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5, 0x100]
    classes = ["ascii", "80", "90", "A0", "none", "C2", "E0", "E1", "ED", "E1", "F0", "F1", "F4", "none"]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(classes))}
    for index, name in enumerate(classes):
        for byte in range(first_bytes[index], first_bytes[index + 1]):
            CLASS_OF[byte] = numbers[name]
    # What each state takes: classes, and the state that follows. The first state is that between characters.
    rules = {
        "": {"ascii": "", "C2": "last", "E0": "E0", "E1": "E1", "ED": "ED", "F0": "F0", "F1": "F1", "F4": "F4"},
        "last": {"80": "", "90": "", "A0": ""},
        "E0": {"A0": "E-last"},
        "E1": {"80": "E-last", "90": "E-last", "A0": "E-last"},
        "ED": {"80": "E-last", "90": "E-last", "A0": "surrogate"},
        "F0": {"90": "F-third", "A0": "F-third"},
        "F1": {"80": "F-third", "90": "F-third", "A0": "F-third"},
        "F4": {"80": "F-third"},
        "E-last": {"80": "", "90": "", "A0": ""},
        "surrogate": {},
        "F-third": {"80": "F-last", "90": "F-last", "A0": "F-last"},
        "F-last": {"80": "", "90": "", "A0": ""},
    }
    pending = {"": 0, "E-last": 2, "surrogate": 2, "F-third": 2, "F-last": 3}
    states = {name: state for state, name in enumerate(rules)}
    for name, taken in rules.items():
        state = states[name]
        PENDING[state] = pending.get(name, 1)
        for byte_class, number in numbers.items():
            step = &STEPS[state][number]
            if byte_class in taken:
                step[0] = Step(states[taken[byte_class]], 0, 0, 1)
            elif name == "surrogate" and byte_class in ("80", "90", "A0"):
                step[0] = Step(0, PENDING[state], 1, 0)  # all three bytes of it are a single mistake
            elif byte_class in rules[""]:
                step[0] = Step(states[rules[""][byte_class]], PENDING[state], 1 if name else 0, 1)
            else:
                step[0] = Step(0, PENDING[state], 2 if name else 1, 0)  # what was read is one mistake, the byte another


cdef Printed measured(wire.Bytes data, int32_t size) noexcept nogil:
    """The way in which the bytes will be printed; a size below 0 is none."""
    cdef Printed printed
    cdef int64_t index, total = 0
    cdef int state = 0
    cdef int mistakes = 0
    cdef const Step* step
    printed.data = data
    printed.size = size
    printed.printed_size = size
    printed.is_text = True
    if size <= 0 or text.is_ascii(data, size):
        return printed
    for index in range(size):
        step = &STEPS[state][CLASS_OF[data[index]]]
        total += step.kept - step.taken_back + text.REPLACEMENT_SIZE * step.replacements
        mistakes |= step.replacements
        state = step.next_state
    if state:
        total += text.REPLACEMENT_SIZE - PENDING[state]
        mistakes = 1
    printed.printed_size = total
    printed.is_text = mistakes == 0
    return printed


cdef inline uint8_t* put_step(uint8_t* target, const Step* step, uint8_t byte, bint with_room) noexcept nogil:
    """Write what a step makes of the byte; with room for a few bytes too many, in the same way whatever it is."""
    cdef size_t replaced_size = text.REPLACEMENT_SIZE * step.replacements
    target -= step.taken_back
    memcpy(target, b"\xef\xbf\xbd\xef\xbf\xbd", 6 if with_room else replaced_size)
    target += replaced_size
    if with_room or step.kept:
        target[0] = byte
    return target + step.kept


cdef uint8_t* put_printed(uint8_t* target, const Printed* printed) noexcept nogil:
    """Write `printed_size` bytes."""
    cdef uint8_t* end = target + printed.printed_size
    cdef int64_t index = 0
    cdef int state = 0
    cdef uint8_t byte
    cdef const Step* step
    if printed.is_text:
        return put(target, printed.data, printed.size)
    # The pending text is never longer than what may replace it, so nothing is written past the end.
    while index < printed.size:
        byte = printed.data[index]
        step = &STEPS[state][CLASS_OF[byte]]
        target = put_step(target, step, byte, True) if end - target > 8 else put_step(target, step, byte, False)
        state = step.next_state
        index += 1
    if state:
        put(target - PENDING[state], b"\xef\xbf\xbd", text.REPLACEMENT_SIZE)
    return end


cdef inline uint8_t* put_timestamp_type(uint8_t* target, int timestamp_type) noexcept nogil:
    if timestamp_type == CREATE_TIME:
        return put(target, b"CreateTime", 10)
    if timestamp_type == LOG_APPEND_TIME:
        return put(target, b"LogAppendTime", 13)
    return put(target, b"NoTimestampType", 15)


cdef int64_t names_size(Record record) noexcept nogil:
    """The size of the header names and the commas between them."""
    cdef wire.Bytes at = record.headers_at
    cdef wire.Bytes name = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, name_size = 0, value_size = 0
    cdef int64_t total = record.header_count - 1
    if record.header_count == 0:
        return 0
    for index in range(record.header_count):
        # The record was checked to its last byte when it was read, so this cannot fail.
        wire.read_header(&at, record.end_at, &name, &name_size, &value, &value_size)
        total += measured(name, name_size).printed_size
    return total


cdef uint8_t* put_names(uint8_t* target, Record record) noexcept nogil:
    cdef wire.Bytes at = record.headers_at
    cdef wire.Bytes name = NULL
    cdef wire.Bytes value = NULL
    cdef int32_t index, name_size = 0, value_size = 0
    cdef Printed printed
    for index in range(record.header_count):
        wire.read_header(&at, record.end_at, &name, &name_size, &value, &value_size)
        if index:
            target[0] = c","
            target += 1
        printed = measured(name, name_size)
        target = put_printed(target, &printed)
    return target


cdef uint8_t* put_head(uint8_t* target, Record record, int timestamp_type, bint is_entry) noexcept nogil:
    # A v2 record knows only that its key or value is null, an entry prints what it says in a size's place.
    cdef int32_t least = record.key_size if is_entry else wire.NULL_SIZE
    target = put(target, b"| offset: ", 10)
    target = put_number(target, record.offset)
    target = put(target, b" ", 1)
    target = put_timestamp_type(target, timestamp_type)
    target = put(target, b": ", 2)
    target = put_number(target, record.timestamp)
    target = put(target, b" keySize: ", 10)
    target = put_number(target, max(record.key_size, least))
    target = put(target, b" valueSize: ", 12)
    least = record.value_size if is_entry else wire.NULL_SIZE
    target = put_number(target, max(record.value_size, least))
    if not is_entry:
        target = put(target, b" sequence: ", 11)
        target = put_number(target, record.sequence)
        target = put(target, b" headerKeys: [", 14)
    return target


cdef void put_fields(uint8_t* target, const Printed* key, const Printed* value) noexcept nogil:
    if key != NULL:
        target = put_printed(put(target, b" key: ", 6), key)
    if value != NULL:
        put_printed(put(target, b" payload: ", 10), value)


def record_line(Record record not None, int timestamp_type, bytes integrity, bint with_data, lease=None):
    """The line of one record, without its end. A line with much data is leased if `lease` of its size is not None.

    `timestamp_type` is that of its batch. Sequence and header names are a v2 record's; for an entry of a message set
    `integrity` stands in their place. Bytes that are not UTF-8 are printed as the JVM prints them.
    """
    cdef uint8_t head[HEAD_ROOM]
    cdef bint is_entry = integrity is not None
    cdef int64_t head_size = put_head(head, record, timestamp_type, is_entry) - head
    cdef int64_t middle_size = PyBytes_GET_SIZE(integrity) if is_entry else 0
    cdef bint with_key = with_data and record.key_size >= 0
    cdef bint with_value = with_data and record.value_size >= 0
    cdef bint has_many_names = record.end_at - record.key_at > LARGE_RECORD if not is_entry else False
    cdef bint is_large = max(record.key_size, record.value_size) > LARGE_RECORD
    cdef Printed key, value
    cdef int64_t total
    cdef bytes line
    cdef uint8_t* at
    if has_many_names:
        with nogil:
            middle_size = names_size(record) + 1
    elif not is_entry:
        middle_size = names_size(record) + 1
    if is_large:
        with nogil:
            key = measured(record.key_at, record.key_size if with_key else 0)
            value = measured(record.value_at, record.value_size if with_value else 0)
    else:
        key = measured(record.key_at, record.key_size if with_key else 0)
        value = measured(record.value_at, record.value_size if with_value else 0)
    total = head_size + middle_size
    if with_key:
        total += 6 + key.printed_size
    if with_value:
        total += 10 + value.printed_size
    held = lease(total) if lease is not None and (is_large or has_many_names) else None
    line = PyBytes_FromStringAndSize(NULL, total)
    at = put(<uint8_t*>PyBytes_AS_STRING(line), head, head_size)
    if is_entry:
        at = put(at, PyBytes_AS_STRING(integrity), middle_size)
    elif has_many_names:
        with nogil:
            at = put(put_names(at, record), b"]", 1)
    else:
        at = put(put_names(at, record), b"]", 1)
    if is_large:
        with nogil:
            put_fields(at, &key if with_key else NULL, &value if with_value else NULL)
    else:
        put_fields(at, &key if with_key else NULL, &value if with_value else NULL)
    return line if held is None else LeasedBuffer(line, held)


set_up_decoder()
