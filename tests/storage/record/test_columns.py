"""Columns hold exactly the records of reading one by one, for all chunks, codecs and damage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import ChecksumError, MalformedRecordsError, StorageError
from storage.record.batch import RecordBatch
from storage.record.columns import COLUMN_TYPES, read_columns, schema_of
from storage.record.compression import Codec
from storage.record.legacy import LegacyBatch
from storage.record.reading import read_batches
from storage.testing import strategies
from storage.testing.codec import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    TRANSACTIONAL,
    ZSTD,
    OracleRecord,
    batch_of,
    compress,
    encode_batch,
    encode_entry,
    encode_records,
    entry_of,
    seal_batch,
    wrapper_of,
    write_varint,
)

if TYPE_CHECKING:
    from storage.record.reading import Batch
    from storage.testing.codec import OracleBatch, OracleEntry

EVERY = tuple(COLUMN_TYPES)
CHUNK_BYTES = (1, 64, 700, 2 << 20)
Row = dict[str, Any]


def rows_of(chunk: pa.RecordBatch) -> list[Row]:
    """The rows of a chunk that is found to be valid, timestamps as numbers."""
    chunk.validate(full=True)
    assert chunk.num_rows > 0
    columns = {}
    for name in chunk.schema.names:
        assert chunk.schema.field(name).type == COLUMN_TYPES[name]
        column = chunk.column(name)
        columns[name] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
    for headers in columns.get("headers", ()):
        headers[:] = [(header["key"], header["value"]) for header in headers]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read(source: bytes, **options: Any) -> tuple[list[Row], StorageError | None]:
    """All rows, and what ended the reading."""
    options.setdefault("columns", EVERY)
    rows: list[Row] = []
    try:
        for chunk in read_columns(source, **options):
            rows += rows_of(chunk)
    except StorageError as error:
        return rows, error
    return rows, None


def rows(source: bytes, **options: Any) -> list[Row]:
    """All rows of what is not damaged."""
    found, error = read(source, **options)
    assert error is None
    return found


def shown(name: str) -> str:
    """Return a header's name with U+FFFD for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def rows_one_by_one(batch: Batch) -> list[Row]:
    """What the columns of one batch must hold, from reading its records as values."""
    is_v2 = isinstance(batch, RecordBatch)
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type,
            "key": record.key,
            "value": record.value,
            "headers": [(shown(name), value) for name, value in record.headers],
            "producerId": batch.producer_id if is_v2 else -1,
            "producerEpoch": batch.producer_epoch if is_v2 else -1,
            "sequence": record.sequence,
            "codec": batch.codec.label,
            "isTransactional": batch.is_transactional if is_v2 else False,
            "isControl": batch.is_control if is_v2 else False,
            "leaderEpoch": batch.leader_epoch if is_v2 else -1,
            "position": batch.position,
        }
        for record in batch.records()
    ]


def one_by_one(source: bytes, *, check_crc: bool = True, origin: int = 0) -> tuple[list[Row], StorageError | None]:
    """What `read` must return, control records included."""
    expected: list[Row] = []
    try:
        for batch in read_batches(source, origin=origin):
            if check_crc:
                batch.check_crc()
                if isinstance(batch, LegacyBatch) and not all(entry.crc_matches for entry in batch.entries()):
                    raise ChecksumError("an entry in the wrapper is damaged", position=batch.position)
            expected += rows_one_by_one(batch)
    except StorageError as error:
        return expected, error
    return expected, None


def records(count: int, **fields: Any) -> list[OracleRecord]:
    given_fields = {"timestamp": 5, "key": b"k", "value": b"v"} | fields
    return [OracleRecord(offset=offset, **given_fields) for offset in range(count)]


def encoded(*units: OracleBatch | OracleEntry) -> bytes:
    return b"".join(strategies.encoded(unit) for unit in units)


@pytest.mark.property
@given(strategies.logs(), st.sampled_from(CHUNK_BYTES))
def test_whole_logs(units: tuple[OracleBatch | OracleEntry, ...], chunk_bytes: int) -> None:
    log = encoded(*units)
    expected, error = one_by_one(log)
    assert error is None
    assert rows(log, include_control=True, chunk_bytes=chunk_bytes) == expected
    assert rows(log, chunk_bytes=chunk_bytes) == [row for row in expected if not row["isControl"]]


@pytest.mark.property
@given(strategies.logs(), st.data(), st.sampled_from(CHUNK_BYTES))
def test_offsets_bound_what_is_read(
    units: tuple[OracleBatch | OracleEntry, ...], data: st.DataObject, chunk_bytes: int
) -> None:
    log = encoded(*units)
    expected, _ = one_by_one(log)
    near = sorted({row["offset"] + step for row in expected for step in (-1, 0, 1)}) or [0]
    first, end = data.draw(st.sampled_from(near)), data.draw(st.sampled_from(near))
    found = rows(log, first_offset=first, end_offset=end, include_control=True, chunk_bytes=chunk_bytes)
    assert found == [row for row in expected if first <= row["offset"] < end]


@pytest.mark.property
@given(st.lists(st.sampled_from(EVERY), min_size=1, unique=True), strategies.logs())
def test_any_columns_in_any_order(columns: list[str], units: tuple[OracleBatch | OracleEntry, ...]) -> None:
    log = encoded(*units)
    expected, _ = one_by_one(log)
    for chunk in read_columns(log, columns=columns, include_control=True):
        assert chunk.schema == schema_of(columns)
    found = rows(log, columns=columns, include_control=True, chunk_bytes=200)
    assert found == [{name: row[name] for name in columns} for row in expected]


@pytest.mark.property
@given(
    st.lists(st.one_of(strategies.damaged_batches(), strategies.batches().map(encode_batch)), max_size=4).map(b"".join),
    st.sampled_from(CHUNK_BYTES),
    st.booleans(),
)
def test_damage_ends_the_reading_with_the_same_error(log: bytes, chunk_bytes: int, check_crc: bool) -> None:
    expected, expected_error = one_by_one(log, check_crc=check_crc, origin=1000)
    found, error = read(log, include_control=True, chunk_bytes=chunk_bytes, check_crc=check_crc, origin=1000)
    assert found == expected
    assert type(error) is type(expected_error)
    if error and expected_error:
        assert error.position == expected_error.position


@st.composite
def sections_of_long_varints(draw: st.DrawFn) -> bytes:
    """Records whose varints may be longer than they need to be, as the JVM reads them, and sizes that may be wrong."""

    def varint(value: int) -> bytes:
        short = write_varint(value)
        padding = draw(st.sampled_from([0] * 40 + [1, 1, 2, 2, 5 - len(short), 6 - len(short)]))
        return short if padding <= 0 else short[:-1] + bytes([short[-1] | 128]) + b"\x80" * (padding - 1) + b"\x00"

    def sized(data: bytes | None) -> bytes:
        wrong = draw(st.sampled_from([0] * 60 + [-1, 1]))
        return varint(-1 + wrong) if data is None else varint(len(data) + wrong) + data

    records_data = b""
    for offset in range(3):
        key, value = (draw(st.one_of(st.none(), st.binary(max_size=70))) for _ in range(2))
        headers = draw(st.sampled_from([varint(0), varint(0), varint(1) + sized(b"h") + sized(None)]))
        body = b"\x00" + varint(draw(st.integers(-9000, 9000))) + varint(offset) + sized(key) + sized(value) + headers
        records_data += varint(len(body)) + body
    return records_data


@pytest.mark.property
@given(sections_of_long_varints(), st.sampled_from(CHUNK_BYTES))
def test_varints_longer_than_they_need_to_be(records_data: bytes, chunk_bytes: int) -> None:
    log = seal_batch(batch_of(records(3)), records_data)
    expected, expected_error = one_by_one(log)
    found, error = read(log, chunk_bytes=chunk_bytes)
    assert (found, type(error)) == (expected, type(expected_error))


@pytest.mark.property
@given(st.lists(st.binary(max_size=12), max_size=12), st.sampled_from(CHUNK_BYTES))
def test_header_names_that_are_not_text(names: list[bytes], chunk_bytes: int) -> None:
    headers = tuple((name.decode("utf-8", "surrogateescape"), name or None) for name in names)
    log = encoded(batch_of(records(2, headers=headers)))
    expected = [(name.decode("utf-8", "replace"), name or None) for name in names]
    assert [row["headers"] for row in rows(log, chunk_bytes=chunk_bytes)] == [expected, expected]


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_what_aiokafka_writes(compression: int) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, True, 77, 5, 2**31 - 2, 1 << 20)
    for index in range(300):
        headers = [("h", b"1"), ("h", None)] if index % 2 else []
        builder.append(index, 1000 + index, b"key-%d" % index, b"value " * index if index % 3 else None, headers)
    found = rows(bytes(builder.build()))
    assert [row["offset"] for row in found] == list(range(300))
    assert [row["timestamp"] for row in found] == list(range(1000, 1300))
    assert [row["key"] for row in found] == [b"key-%d" % index for index in range(300)]
    assert [row["value"] for row in found] == [b"value " * index if index % 3 else None for index in range(300)]
    assert [row["headers"] for row in found] == [[], [("h", b"1"), ("h", None)]] * 150
    assert [row["sequence"] for row in found[:4]] == [2**31 - 2, 2**31 - 1, 0, 1]
    assert {row["codec"] for row in found} == {Codec(compression).label}
    assert {(row["producerId"], row["producerEpoch"], row["isTransactional"]) for row in found} == {(77, 5, True)}


def test_every_column() -> None:
    batch = batch_of(
        records(1, headers=(("h", b"x"), ("h", None))),
        base_offset=0,
        partition_leader_epoch=9,
        attributes=ZSTD | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL,
        producer_id=2**63 - 1,
        producer_epoch=2**15 - 1,
        base_sequence=2**31 - 1,
    )
    log = encoded(entry_of(OracleRecord(0), 0), replace(batch, max_timestamp=17))
    assert rows(log, include_control=True, origin=500) == [
        dict(zip(EVERY, (0, -1, -1, None, None, [], -1, -1, -1, "none", False, False, -1, 500), strict=True)),
        {
            "offset": 0,
            "timestamp": 17,
            "timestampType": 1,
            "key": b"k",
            "value": b"v",
            "headers": [("h", b"x"), ("h", None)],
            "producerId": 2**63 - 1,
            "producerEpoch": 2**15 - 1,
            "sequence": 2**31 - 1,
            "codec": "zstd",
            "isTransactional": True,
            "isControl": True,
            "leaderEpoch": 9,
            "position": 526,
        },
    ]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 128, 129])
@pytest.mark.parametrize("nulls", ["first", "last", "even", "all", "none"])
def test_nulls_at_the_edges_of_words(count: int, nulls: str) -> None:
    chosen = {
        "first": {0},
        "last": {count - 1},
        "even": set(range(0, count, 2)),
        "all": set(range(count)),
        "none": set(),
    }
    values = [None if index in chosen[nulls] else b"%d" % index for index in range(count)]
    headers = tuple(("h", value) for value in values)
    batch = batch_of([OracleRecord(offset, 0, value, value, headers) for offset, value in enumerate(values)])
    (chunk,) = read_columns(encoded(batch))
    assert chunk.column("key").to_pylist() == values
    assert chunk.column("value").null_count == len(chosen[nulls])
    assert [row["headers"] for row in rows_of(chunk)] == [list(headers)] * count


@pytest.mark.parametrize("codec", [0, LZ4])
def test_a_large_batch_is_split_over_chunks(codec: int) -> None:
    log = encoded(batch_of(records(20_000, value=bytes(range(100))), attributes=codec))
    chunks = list(read_columns(log, chunk_bytes=64 << 10))
    assert len(chunks) > 20
    assert all(chunk.nbytes < 100 << 10 for chunk in chunks)
    assert all(chunk.nbytes > 40 << 10 for chunk in chunks[1:-1])
    assert [offset for chunk in chunks for offset in chunk.column("offset").to_pylist()] == list(range(20_000))


def test_a_record_larger_than_a_chunk_gets_its_own() -> None:
    sizes = [10, 100_000, 10, 10, 300_000, 10]
    batch = batch_of([OracleRecord(offset, 0, None, bytes(size)) for offset, size in enumerate(sizes)])
    chunks = list(read_columns(encoded(batch), chunk_bytes=4096))
    assert [[len(value) for value in chunk.column("value").to_pylist()] for chunk in chunks] == [
        [10],
        [100_000],
        [10, 10],
        [300_000],
        [10],
    ]


@pytest.mark.parametrize("count", [0, 1, 9, 11, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("chunk_bytes", [1, 2 << 20])
def test_counts_that_lie(count: int, codec: int, chunk_bytes: int) -> None:
    batch = batch_of(records(10), base_offset=0, attributes=codec)
    good = encoded(batch)
    log = good + encoded(replace(batch, record_count=count)) + good
    found, error = read(log, chunk_bytes=chunk_bytes)
    if count == 0:  # as on the JVM, nothing of such a batch is looked at
        assert (len(found), error) == (20, None)
        return
    assert [row["position"] for row in found] == [0] * 10
    assert isinstance(error, MalformedRecordsError)
    assert (error.position, error.offset) == (len(good), 0)


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize("compressed", [False, True])
def test_no_row_of_a_damaged_batch(chunk_bytes: int, compressed: bool) -> None:
    good = batch_of(records(10), base_offset=0, attributes=ZSTD if compressed else 0)
    bad = seal_batch(good, compress(good.codec, encode_records(good)[:-1]))
    flipped = bytearray(encoded(good))
    flipped[-1] ^= 1
    start = len(encoded(good))
    for log, kind in ((encoded(good) + bad, MalformedRecordsError), (encoded(good) + flipped, ChecksumError)):
        found, error = read(log, chunk_bytes=chunk_bytes, origin=7)
        assert [row["offset"] for row in found] == list(range(10))
        assert type(error) is kind
        assert (error.position, error.offset) == (start + 7, 0)


def test_what_follows_the_wanted_offsets_is_not_looked_at() -> None:
    one, two = (encoded(batch_of(records(10)[start : start + 5])) for start in (0, 5))
    damaged = bytearray(two)
    damaged[-1] ^= 1
    assert len(rows(one + damaged, end_offset=5)) == 5
    assert len(rows(one + damaged, end_offset=0)) == 0
    assert read(one + damaged, end_offset=6)[1] is not None


def test_every_entry_of_a_wrapper_is_checked() -> None:
    inner = [encode_entry(entry_of(record, 1)) for record in records(3)]
    inner[2] = inner[2][:-1] + b"w"
    wrapper = replace(wrapper_of(records(3), 1, 0), attributes=GZIP, value=compress(GZIP, b"".join(inner)))
    log = encoded(entry_of(OracleRecord(0), 1), wrapper)
    found, error = read(log, chunk_bytes=1)
    assert len(found) == 1
    assert isinstance(error, ChecksumError)
    assert (error.position, error.offset) == (len(encoded(entry_of(OracleRecord(0), 1))), 2)
    assert len(rows(log, check_crc=False)) == 4


def test_a_wrapper_of_an_old_client_says_offset_0() -> None:
    wrapper = replace(wrapper_of(records(6), 1, GZIP), offset=0)
    assert [row["offset"] for row in rows(encoded(wrapper), first_offset=2, end_offset=5)] == [2, 3, 4]
