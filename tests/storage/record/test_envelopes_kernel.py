"""Records as lines of JSON, counted and written, against Python's own JSON, UTF-8 and base64."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, MalformedRecordsError
from storage.record import (
    RecordBatch,
    batches_of_rows,
    envelope_lines,
    envelope_lines_size,
    json_member,
    read_batches,
)
from storage.testing.codec import (
    CODECS,
    LOG_APPEND_TIME,
    NONE,
    OracleBatch,
    OracleRecord,
    batch_of,
    compress,
    encode_batch,
    encode_records,
    seal_batch,
)
from storage.testing.strategies import batches_with_damaged_records, data_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BEGINNING = b'{"topic":"orders","partition":3,'
BLOCKS = 3 * 16  # bytes that strings are read by 16 of

CHARACTERS = [
    *(bytes([byte]) for byte in range(0x20)),
    *(b'"', b"\\", b"/", b"\x7f", b" "),
    *(text.encode() for text in "\x80é߿ࠀ€\u2028\u2029퟿\ue000\ufeff\uffff\U00010000\U0001f600\U0010ffff"),
]
NO_CHARACTERS = [
    *(b"\x80", b"\xbf", b"\xfe", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f"),
    *(b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf"),  # longer than they need be
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80"),  # surrogates, one and a pair
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe2\x28\xa1", b"\xe2\x82\x28"),
]

plain = st.integers(0, 40).map(lambda size: (bytes(range(0x61, 0x7B)) * 2)[:size])
pieces = st.one_of(plain, plain, st.sampled_from(CHARACTERS), st.text(max_size=20).map(str.encode))
texts = st.lists(pieces).map(b"".join)
some_bytes = st.one_of(
    texts,
    st.tuples(texts, st.sampled_from(NO_CHARACTERS), texts).map(b"".join),
    st.binary(max_size=40),
)
names = some_bytes.map(lambda name: name.decode("utf-8", "surrogateescape"))


LARGE_BYTES = 1 << 15  # from which the kernel works without Python's lock


@st.composite
def awkward_batches(draw: st.DrawFn) -> OracleBatch:
    """A batch of any codec with strings of every kind, and with gaps."""
    offset, records = draw(st.integers(0, 2**40)), []
    base_offset = offset
    for _ in range(draw(st.integers(1, 5))):
        key, value = draw(st.none() | some_bytes), draw(st.none() | some_bytes)
        headers = draw(st.lists(st.tuples(names, st.none() | some_bytes), max_size=3).map(tuple))
        offset += draw(st.integers(1, 1000))
        records.append(OracleRecord(offset, draw(st.integers(-(2**63), 2**63 - 1)), key, value, headers))
    attributes = draw(st.sampled_from(CODECS)) | draw(st.sampled_from([0, LOG_APPEND_TIME]))
    return batch_of(records, base_offset=base_offset, attributes=attributes)


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


def member(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data or b"").decode()}


def line_of(record: OracleRecord, *, is_append_time: bool) -> bytes:
    fields: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp}
    fields["timestampType"] = "LogAppendTime" if is_append_time else "CreateTime"
    fields |= member("key", record.key) | member("value", record.value)
    fields["headers"] = [
        member("key", name.encode("utf-8", "surrogateescape")) | member("value", data) for name, data in record.headers
    ]
    return BEGINNING + json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:].encode() + b"\n"


def lines_of(oracle: OracleBatch) -> bytes:
    is_append_time = bool(oracle.attributes & LOG_APPEND_TIME)
    return b"".join(line_of(record, is_append_time=is_append_time) for record in oracle.records)


def check(oracle: OracleBatch) -> None:
    check_lines(read(encode_batch(oracle)), lines_of(oracle))


def check_lines(batch: RecordBatch, expected: bytes) -> None:
    records_data = batch.records_data()
    lines = envelope_lines(batch, records_data, BEGINNING)
    if lines != expected:  # by line, so that what differs is not looked for in megabytes
        assert lines.splitlines() == expected.splitlines()
    assert lines == expected
    assert envelope_lines_size(batch, records_data, BEGINNING) == len(expected)


def check_values(values: Iterable[bytes]) -> None:
    """Check one batch of all of them; made by what is faster than the oracle."""
    held = list(values)
    (data,) = batches_of_rows([(5, None, value, ()) for value in held], max_bytes=1 << 30)
    records = (OracleRecord(offset, 5, None, value) for offset, value in enumerate(held))
    check_lines(read(bytes(data)), b"".join(line_of(record, is_append_time=False) for record in records))


@pytest.mark.property
@given(data_batches())
def test_a_batch_gives_its_records(oracle: OracleBatch) -> None:
    check(oracle)


@pytest.mark.property
@given(awkward_batches())
def test_every_string_is_what_python_makes_of_it(oracle: OracleBatch) -> None:
    check(oracle)


@pytest.mark.property
@given(batches_with_damaged_records())
def test_damaged_records_are_an_error_exactly_where_they_do_not_parse(data: bytes) -> None:
    try:
        batch = read(data)
        records_data = batch.records_data()
        records = [
            OracleRecord(record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in batch.records()
        ]
    except (CorruptBatchError, StopIteration) as error:
        if isinstance(error, MalformedRecordsError):
            for look in (envelope_lines, envelope_lines_size):
                with pytest.raises(MalformedRecordsError) as raised:
                    look(batch, records_data, BEGINNING)
                assert (raised.value.position, raised.value.offset) == (batch.position, batch.base_offset)
        return
    is_append_time = bool(batch.attributes & LOG_APPEND_TIME)
    expected = b"".join(line_of(record, is_append_time=is_append_time) for record in records)
    assert envelope_lines(batch, records_data, BEGINNING) == expected
    assert envelope_lines_size(batch, records_data, BEGINNING) == len(expected)


@pytest.mark.parametrize("piece", [*CHARACTERS, *NO_CHARACTERS])
def test_a_piece_is_found_wherever_it_is(piece: bytes) -> None:
    check_values(
        b"a" * before + piece + b"z" * after for before in range(BLOCKS) for after in (0, 1, 2, 15, 16, 17, 33)
    )
    check_values(piece * count for count in range(BLOCKS))
    # Of the last record nothing may be read after its end.
    for before in range(BLOCKS):
        check_values([b"a" * before + piece])


def test_two_bytes_are_what_python_takes_them_for() -> None:
    check_values(b"%c%c" % (first, second) for first in range(256) for second in range(256))


@pytest.mark.parametrize("ending", [b"", b"ascii after it, and more than a block of that"])
def test_longer_characters_are_what_python_takes_them_for(ending: bytes) -> None:
    lasts = (b"\x7f", b"\x80", b"\xbf", b"\xc0")
    pairs = [b"%c%c" % (first, second) for first in range(0xE0, 0xF8) for second in range(256)]
    check_values(pair + last + ending for pair in pairs for last in lasts)
    fours = [pair for pair in pairs if pair >= b"\xf0"]
    check_values(pair + third + last + ending for pair in fours for third in lasts for last in lasts)


def test_numbers_of_every_length_are_written_and_counted() -> None:
    numbers = {sign * (10**power + less) for power in range(19) for less in (-1, 0, 1) for sign in (-1, 1)}
    for number in sorted(numbers | {2**63 - 1, -(2**63)}):
        record = OracleRecord(number, number, b"k", b"v")
        check(batch_of([record]))
        check(batch_of([record], attributes=LOG_APPEND_TIME))


def test_offsets_and_timestamps_wrap_as_they_do_on_the_jvm() -> None:
    base = batch_of([OracleRecord(0, 0, b"k", b"v"), OracleRecord(7, 9, b"k", b"v")])
    far = replace(base, base_offset=2**63 - 7, base_timestamp=2**63 - 9)
    batch = read(seal_batch(far, encode_records(base)))
    lines = envelope_lines(batch, batch.records_data(), BEGINNING).splitlines()
    found = [(fields["offset"], fields["timestamp"]) for fields in map(json.loads, lines)]
    assert found == [(2**63 - 7, 2**63 - 9), (-(2**63), -(2**63))]


def test_large_batches_are_the_same_as_small_ones() -> None:
    values = [b"a" * 100_000, b'"' * 100_000, b"\x01" * 100_000, "€".encode() * 50_000, b"\xff" * 99_999, b"\0" * 7]
    check_values(values)
    check(batch_of([OracleRecord(0, 5, values[1], values[2], (("€" * 40_000, values[3]), ("\udcff", values[4])))]))
    check(batch_of([OracleRecord(offset, 5, None, None, (("h", None),) * 9) for offset in range(5000)]))


def test_escapes_may_need_more_room_than_base64_in_their_place() -> None:
    for size in [*range(40), 100, 1000, 10_000, 100_000]:
        for control in (b"\0", b'"', b"\n\x01"):
            check_values([control * size + b"\xff"])
            check_values([b"v", control * size + b"\xe2\x82", b"v" * size])
            check(
                batch_of([OracleRecord(0, 5, control * size + b"\xff", None, (("\udcff", control * size + b"\xff"),))])
            )


@pytest.mark.parametrize("piece", [b"v", b'{"a":1}', b"\0", b"\xff", "€".encode()])
@pytest.mark.parametrize("shape", [(1_000_000, 2), (100, 10_000), (0, 20_000)])
def test_twice_the_memory_of_the_lines_is_enough(piece: bytes, shape: tuple[int, int]) -> None:
    size_bytes, count = shape
    value = piece * (size_bytes // len(piece))
    batch = read(encode_batch(batch_of([OracleRecord(offset, 5, None, value) for offset in range(count)])))
    records_data = batch.records_data()
    with traced() as peak:
        size = envelope_lines_size(batch, records_data, BEGINNING)
        assert peak() < 4096
    with traced() as peak:
        lines = envelope_lines(batch, records_data, BEGINNING)
        assert peak() < 2 * size + 4096
    assert len(lines) == size


def test_a_wrong_count_takes_little_memory() -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v" * 1_000_000)])))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    batch = read(bytes(data))
    with traced() as peak:
        with pytest.raises(MalformedRecordsError):
            envelope_lines(batch, batch.records_data(), BEGINNING)
        assert peak() < 4 * len(data) + 70_000


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Give the most memory that was in use since, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("change", [-3, -1, 1, 2**31 - 2])
def test_a_count_that_is_not_the_records_is_damage(change: int) -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v"), OracleRecord(1, 6, None, b"v")])))
    data[57:61] = (2 + change & 0xFFFFFFFF).to_bytes(4, "big")
    batch = read(bytes(data))
    for look in (envelope_lines, envelope_lines_size):
        with pytest.raises(MalformedRecordsError, match="does not hold exactly"):
            look(batch, batch.records_data(), BEGINNING)


def test_of_a_batch_that_declares_no_records_nothing_is_looked_at() -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v")])))
    data[57:61] = bytes(4)
    batch = read(bytes(data))
    assert envelope_lines(batch, b"anything", BEGINNING) == b""
    assert envelope_lines_size(batch, b"anything", BEGINNING) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_section_cut_anywhere_is_damage(codec: int) -> None:
    whole = batch_of(
        [OracleRecord(0, 5, b"k", b"v" * 40, (("h", b"x"),)), OracleRecord(1, 6, None, b"v")], attributes=codec
    )
    records_data = encode_records(whole)
    for size in range(len(records_data)):
        batch = read(seal_batch(whole, compress(codec, records_data[:size]) if codec != NONE else records_data[:size]))
        for look in (envelope_lines, envelope_lines_size):
            with pytest.raises(MalformedRecordsError):
                look(batch, batch.records_data(), BEGINNING)


@pytest.mark.property
@given(st.binary() | st.text().map(str.encode), st.integers(0, 3), st.booleans())
def test_a_string_is_what_python_makes_of_it(data: bytes, times: int, is_large: bool) -> None:
    data = data * times * (LARGE_BYTES // max(len(data), 1) + 1 if is_large else 1)
    try:
        expected = b'"key": ' + json.dumps(data.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        expected = b'"key_base64": "%b"' % b64encode(data)
    assert json_member(b'"key', data, b": ") == expected
    assert json_member(b'"key', None, b":") == b'"key":null'
