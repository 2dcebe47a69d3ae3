"""Rows -> records data: byte for byte what the oracle writes, and nothing but what can be written."""

from __future__ import annotations

import array
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.errors import InvalidRecordError, RecordTooLargeError
from storage.record import RecordBatch, read_batches
from storage.record.kernel.decode import Record, RecordIterator
from storage.record.kernel.encode import encode_rows
from storage.record.kernel.records_data import RecordsData, seal
from storage.testing import strategies
from storage.testing.codec import OracleRecord, batch_of, encode_batch, encode_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from storage.record.encoding import Row

HEADER_BYTES = 61
UNLIMITED = 2**31
INT64_MAX = 2**63 - 1
T = 1_700_000_000_000


def oracle_records(rows: Sequence[Row], base_offset: int = 0) -> list[OracleRecord]:
    return [
        OracleRecord(
            base_offset + index,
            timestamp,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            tuple(headers),
        )
        for index, (timestamp, key, value, headers) in enumerate(rows)
    ]


def expected(rows: Sequence[Row]) -> bytes:
    return encode_records(batch_of(oracle_records(rows), base_offset=0))


def sealed(records_data: RecordsData) -> bytes:
    """The plain batch at offset 0."""
    return seal(
        records_data,
        base_offset=0,
        leader_epoch=0,
        attributes=0,
        last_offset_delta=records_data.count - 1,
        base_timestamp=records_data.base_timestamp,
        max_timestamp=records_data.max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=records_data.count,
    )


def decoded(batch: bytes) -> list[Record]:
    (frame,) = read_batches(batch)
    assert isinstance(frame, RecordBatch)
    assert frame.crc_matches
    return list(RecordIterator(frame))


rows_of_any_kind = st.lists(
    st.tuples(strategies.timestamps, strategies.keys, strategies.values, strategies.headers), min_size=1, max_size=12
)


@pytest.mark.property
@given(rows_of_any_kind)
@example([(-1, None, None, ()), (INT64_MAX, None, None, ())])
def test_rows_become_what_the_oracle_writes(rows: list[Row]) -> None:
    records_data = encode_rows(rows, max_bytes=UNLIMITED)
    timestamps = [row[0] for row in rows]
    assert bytes(records_data) == expected(rows)
    assert len(records_data) == len(bytes(records_data))
    assert (records_data.count, records_data.stop) == (len(rows), len(rows))
    assert (records_data.base_timestamp, records_data.max_timestamp) == (timestamps[0], max(timestamps))
    batch = sealed(records_data)
    assert batch == encode_batch(batch_of(oracle_records(rows)))
    seen = [(record.timestamp, record.key, record.value, record.headers) for record in decoded(batch)]
    assert seen == [(timestamp, key, value, tuple(headers)) for timestamp, key, value, headers in rows]


@pytest.mark.property
@given(rows_of_any_kind, strategies.timestamps)
def test_timestamps_count_from_the_base_that_is_given(rows: list[Row], base: int) -> None:
    records_data = encode_rows(rows, max_bytes=UNLIMITED, base_timestamp=base)
    assert records_data.base_timestamp == base
    assert bytes(records_data) == encode_records(batch_of(oracle_records(rows), base_timestamp=base))


@pytest.mark.property
@given(rows_of_any_kind, st.data())
def test_no_record_is_taken_that_exceeds_the_maximum(rows: list[Row], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    sizes = [HEADER_BYTES + len(expected(rows[start:stop])) for stop in range(start + 1, len(rows) + 1)]
    max_bytes = data.draw(st.sampled_from([*sizes, *(size - 1 for size in sizes), 0, UNLIMITED]))
    records_data = encode_rows(rows, max_bytes=max_bytes, start=start)
    assert records_data.count == max(sum(size <= max_bytes for size in sizes), 1)
    assert records_data.stop == start + records_data.count
    assert bytes(records_data) == expected(rows[start : records_data.stop])


def test_sections_follow_each_other_to_the_end() -> None:
    rows = [(T + index, b"key", bytes(index % 500), ()) for index in range(2000)]
    start, made = 0, []
    while start < len(rows):
        records_data = encode_rows(rows, max_bytes=16384, start=start)
        assert bytes(records_data) == expected(rows[start : records_data.stop])
        assert len(records_data) + HEADER_BYTES <= 16384
        made.append(records_data)
        start = records_data.stop
    assert sum(each.count for each in made) == len(rows)


@pytest.mark.parametrize(
    "sizes",
    [
        [40] * 20_000,
        [*range(0, 3000, 3)],
        [*range(3000, 0, -3)],
        [10] * 5000 + [10**6] + [10] * 5000,
        [10**6, 0, 10**6],
    ],
)
@pytest.mark.parametrize("max_bytes", [UNLIMITED, 1 << 20])
def test_memory_grows_with_the_data(sizes: list[int], max_bytes: int) -> None:
    rows = [(T, None, bytes([size % 251]) * size, ()) for size in sizes]
    records_data = encode_rows(rows, max_bytes=max_bytes)
    assert bytes(records_data) == expected(rows[: records_data.count])
    assert (max_bytes == UNLIMITED) <= (records_data.count == len(rows))


def test_no_rows_make_an_empty_section() -> None:
    for records_data in (encode_rows([], max_bytes=100), encode_rows([(T, None, None, ())], max_bytes=100, start=1)):
        assert bytes(records_data) == b""
        assert (records_data.count, records_data.base_timestamp, records_data.max_timestamp) == (0, -1, -1)


class Moment(IntEnum):
    LAUNCH = T


class Named(NamedTuple):
    timestamp: int
    key: Buffer | None
    value: Buffer | None
    headers: list[tuple[str, Buffer | None]]


class Text(str):
    __slots__ = ()


class Octets(bytes):
    pass


@pytest.mark.parametrize(
    "key", [b"key", bytearray(b"key"), memoryview(b"-key")[1:], Octets(b"key"), memoryview(b"ykxexyx")[1:6:2]]
)
@pytest.mark.parametrize("value", [b"abcd", array.array("H", b"abcd"), memoryview(b"abcd").cast("B", (2, 2))])
def test_anything_that_is_bytes_will_do(key: Any, value: Any) -> None:
    rows: list[Any] = [
        (T, key, value, [("a", key), (Text("b"), None)]),
        Named(Moment.LAUNCH, key, value, [("a", memoryview(b"key"))]),
        (True, None, key, (("ä", value),)),
    ]
    plain: list[Row] = [
        (T, bytes(key), b"abcd", [("a", bytes(key)), ("b", None)]),
        (T, bytes(key), b"abcd", [("a", b"key")]),
        (1, None, bytes(key), (("ä", b"abcd"),)),
    ]
    assert bytes(encode_rows(tuple(rows), max_bytes=UNLIMITED)) == expected(plain)
    assert bytes(encode_rows(iter(rows), max_bytes=UNLIMITED)) == expected(plain)  # type: ignore[arg-type]


@pytest.mark.property
@given(st.binary(max_size=20))
def test_names_that_are_not_utf8_come_back_as_their_bytes(name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    records_data = encode_rows([(T, None, None, [(text, b"x")])], max_bytes=UNLIMITED)
    assert name in bytes(records_data)
    (record,) = decoded(sealed(records_data))
    assert record.headers == ((text, b"x"),)


class Hostile:
    def __index__(self) -> int:
        return 5

    def __bytes__(self) -> bytes:
        return b"bytes"

    def __len__(self) -> int:
        return 4


released = memoryview(b"gone")
released.release()

INVALID: list[tuple[Any, str]] = [
    (None, "row 1 must be a tuple"),
    ([T, None, None, ()], "row 1 must be a tuple"),
    ((T, None, None), "row 1 must be a tuple"),
    ((T, None, None, (), ()), "row 1 must be a tuple"),
    ((), "row 1 must be a tuple"),
    (Hostile(), "row 1 must be a tuple"),
    ((None, None, None, ()), "row 1: the timestamp must be an int, not NoneType"),
    ((1.5, None, None, ()), "row 1: the timestamp must be an int, not float"),
    ((Hostile(), None, None, ()), "row 1: the timestamp must be an int, not Hostile"),
    ((-2, None, None, ()), "row 1: the timestamp is not within -1..9223372036854775807"),
    ((2**63, None, None, ()), "row 1: the timestamp is not within"),
    ((-(2**63) - 1, None, None, ()), "row 1: the timestamp is not within"),
    ((10**5000, None, None, ()), "row 1: the timestamp is not within"),
    ((T, "key", None, ()), "row 1: the key must be bytes or None, not str"),
    ((T, 3, None, ()), "row 1: the key must be bytes or None, not int"),
    ((T, released, None, ()), "row 1: the key cannot be read"),
    ((T, None, [1, 2], ()), "row 1: the value must be bytes or None, not list"),
    ((T, None, Hostile(), ()), "row 1: the value must be bytes or None, not Hostile"),
    ((T, None, None, None), "row 1: the headers must be a list or tuple, not NoneType"),
    ((T, None, None, {"a": b"b"}), "row 1: the headers must be a list or tuple, not dict"),
    ((T, None, None, iter(())), "row 1: the headers must be a list or tuple, not tuple_iterator"),
    ((T, None, None, ["ab"]), "row 1: a header must be a tuple of name and value"),
    ((T, None, None, [["a", b"b"]]), "row 1: a header must be a tuple of name and value"),
    ((T, None, None, [("a",)]), "row 1: a header must be a tuple of name and value"),
    ((T, None, None, [("a", b"b"), ("a", b"b", b"c")]), "row 1: a header must be a tuple of name and value"),
    ((T, None, None, [(b"a", b"b")]), "row 1: a header's name must be a str, not bytes"),
    ((T, bytearray(), None, [(b"a", b"b")]), "row 1: a header's name must be a str, not bytes"),
    ((T, None, None, [(None, b"b")]), "row 1: a header's name must be a str, not NoneType"),
    ((T, None, None, [("\ud800", b"b")]), "row 1: a header's name has no bytes"),
    ((T, None, None, [("\udc79", b"b")]), "row 1: a header's name has no bytes"),
    ((T, None, None, [("a", "b")]), "row 1: the header value must be bytes or None, not str"),
]


@pytest.mark.parametrize(("row", "reason"), INVALID, ids=range(len(INVALID)))
def test_what_cannot_be_written_is_refused_by_its_index(row: Any, reason: str) -> None:
    rows = [(T, b"k", b"v", ()), row, (T, b"k", b"v", ())]
    with pytest.raises(InvalidRecordError) as caught:
        encode_rows(rows, max_bytes=UNLIMITED)
    assert caught.value.reason.startswith(reason)
    assert encode_rows([rows[0], *rows], max_bytes=0).stop == 1  # which never looks as far


def test_bounds_of_arguments() -> None:
    rows = [(T, b"k", b"v", ())]
    for arguments in (
        {"max_bytes": -1},
        {"max_bytes": 2**63},
        {"max_bytes": 1.5},
        {"max_bytes": 100, "start": -1},
        {"max_bytes": 100, "start": 2},
        {"max_bytes": 100, "base_timestamp": -2},
        {"max_bytes": 100, "base_timestamp": 2**63},
        {"max_bytes": 100, "base_timestamp": "x"},
    ):
        with pytest.raises(InvalidRecordError):
            encode_rows(rows, **arguments)
    with pytest.raises(TypeError):
        encode_rows(None, max_bytes=100)  # type: ignore[arg-type]


def test_a_record_beyond_all_batches_is_too_large_only_when_it_is_first() -> None:
    piece = bytes(1 << 20)
    enormous: Row = (T, None, None, [("", piece)] * 2048)
    with pytest.raises(RecordTooLargeError, match="row 0: 2147493900 bytes do not fit"):
        encode_rows([enormous], max_bytes=INT64_MAX)
    records_data = encode_rows([(T, None, b"small", ()), enormous], max_bytes=INT64_MAX)
    assert (records_data.count, records_data.stop) == (1, 1)


class Clearing(list[Any]):
    """Headers that take the rows away while they are read."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__([("name", bytearray(b"value"))])
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        self.rows.clear()
        return super().__iter__()


def test_rows_that_vanish_while_they_are_read() -> None:
    rows: list[Any] = [(T, b"k%d" % index, bytes(100), [("a", b"b")]) for index in range(100)]
    rows[50] = (T, None, None, Clearing(rows))
    kept = [*rows[:50], (T, None, None, [("name", b"value")])]
    records_data = encode_rows(rows, max_bytes=UNLIMITED)
    assert rows == []
    assert records_data.count == 51
    assert bytes(records_data) == expected(kept)
