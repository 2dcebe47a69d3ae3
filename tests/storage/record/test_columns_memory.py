"""Columns and memory: what chunks cost, what they depend on, and that the filler keeps within its buffers."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from storage.errors import DecompressedTooLargeError, FramingError, MalformedRecordsError
from storage.record.columns import DEFAULT_COLUMNS, LARGEST_CHUNK_BYTES, read_columns
from storage.record.kernel.columns import ColumnFiller
from storage.record.kernel.pinned_buffer import PinnedBuffer
from storage.record.reading import read_batches
from storage.testing.codec import GZIP, LZ4, OracleRecord, batch_of, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.record.batch import RecordBatch

MIB = 1 << 20
ROOM = (100, 1000, 1000, 100, 1000, 1000)


def batch(count: int = 10, *, value: bytes | None = b"v", attributes: int = 0, **fields: Any) -> bytes:
    made = [OracleRecord(offset, 5, b"k", value, fields.get("headers", ())) for offset in range(count)]
    return encode_batch(batch_of(made, base_offset=0, attributes=attributes))


def only_batch(log: bytes) -> RecordBatch:
    (found,) = read_batches(log)
    return found  # type: ignore[return-value]


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """A pool of its own for the test, so that its peak is the test's."""
    before = pa.default_memory_pool()
    own = pa.proxy_memory_pool(before)
    pa.set_memory_pool(own)
    yield own
    pa.set_memory_pool(before)


def filler(columns: tuple[str, ...] = DEFAULT_COLUMNS, allocate: Callable[[int], Any] = bytearray) -> ColumnFiller[Any]:
    return ColumnFiller(columns, allocate, first_offset=0, last_offset=2**62, include_control=False, check_crc=True)


@pytest.mark.parametrize("attributes", [0, LZ4])
def test_chunks_cost_what_they_hold(pool: pa.MemoryPool, attributes: int) -> None:
    log = batch(20_000, value=bytes(500), attributes=attributes)
    rows = 0
    for chunk in read_columns(log, chunk_bytes=MIB):
        rows += chunk.num_rows
        del chunk
    assert rows == 20_000
    assert pool.bytes_allocated() == 0
    assert pool.max_memory() < 3 * MIB
    chunks = list(read_columns(log, chunk_bytes=MIB))
    assert pool.bytes_allocated() < 1.1 * sum(chunk.nbytes for chunk in chunks)


def test_a_chunk_is_allocated_when_it_is_asked_for(pool: pa.MemoryPool) -> None:
    chunks = read_columns(batch(10_000), chunk_bytes=64 << 10)
    assert pool.bytes_allocated() == 0
    chunk = next(chunks)
    assert pool.bytes_allocated() < 100 << 10
    del chunk
    assert pool.bytes_allocated() == 0


@pytest.mark.parametrize("count", [11, 2**31 - 1])
def test_a_count_costs_nothing(pool: pa.MemoryPool, count: int) -> None:
    log = bytearray(batch())
    struct.pack_into(">i", log, 57, count)
    with pytest.raises(MalformedRecordsError):
        list(read_columns(log, check_crc=False))
    assert pool.max_memory() < 6 * MIB


def test_a_bomb_is_refused(pool: pa.MemoryPool) -> None:
    log = batch(1, value=bytes(8 * MIB), attributes=GZIP)
    assert len(log) < MIB
    with pytest.raises(DecompressedTooLargeError) as raised:
        list(read_columns(log, limit_bytes=4 * MIB, origin=3))
    assert (raised.value.position, raised.value.offset) == (3, 0)
    assert pool.max_memory() == 0


def test_columns_that_are_not_wanted_are_not_made() -> None:
    log = batch(100, value=bytes(1000), headers=(("h", bytes(1000)),))
    for columns, parts in (
        (("offset",), {"offset"}),
        (("key", "isControl"), {"key.ends", "key.data", "isControl"}),
        (
            ("headers",),
            {"headers.ends", "headers.key.ends", "headers.key.data", "headers.value.ends", "headers.value.data"},
        ),
    ):
        made = filler(columns)
        made.begin(100, 100, 10**6, 100, 100, 10**6)
        made.open(only_batch(log))
        assert made.fill()
        assert made.finish().keys() == parts
    made = filler(("offset",))
    made.begin(100, 0, 0, 0, 0, 0)
    made.open(only_batch(log))
    assert made.fill()
    assert made.used == (100, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("source_type", [bytes, bytearray, memoryview])
def test_chunks_do_not_depend_on_the_source(source_type: Callable[[bytes], Any]) -> None:
    log = bytearray(batch() + batch(attributes=LZ4))
    before = [chunk.to_pylist() for chunk in read_columns(source_type(log))]
    chunks = list(read_columns(source_type(log) if source_type is bytes else log))
    log[:] = bytes(len(log))
    assert [chunk.to_pylist() for chunk in chunks] == before


def test_a_map_can_be_closed_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(batch() * 3)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        (chunk,) = read_columns(mapped)
    assert chunk.num_rows == 30


def test_a_part_of_the_source() -> None:
    one = batch()
    log = one * 4
    (chunk,) = read_columns(log, start=len(one), end=3 * len(one) + 5, origin=1000, columns=["position"])
    assert chunk.column("position").to_pylist() == [1000 + len(one)] * 10 + [1000 + 2 * len(one)] * 10
    assert list(read_columns(log, start=len(log))) == []
    assert list(read_columns(b"")) == []
    for bounds in ({"start": -1}, {"end": len(log) + 1}, {"start": 2, "end": 1}):
        with pytest.raises(IndexError):
            read_columns(log, **bounds)


def test_a_tail_of_zeros_comes_after_the_rows_before_it() -> None:
    chunks = read_columns(batch() + bytes(100), origin=50)
    assert next(chunks).num_rows == 10
    with pytest.raises(FramingError) as raised:
        next(chunks)
    assert raised.value.position == 50 + len(batch())


@pytest.mark.parametrize("columns", [[], ["offset", "offset"], ["Offset"], ["offset", "partition"]])
def test_columns_that_cannot_be(columns: list[str]) -> None:
    with pytest.raises(ValueError, match="column"):
        read_columns(b"", columns=columns)


@pytest.mark.parametrize("chunk_bytes", [-1, 0, LARGEST_CHUNK_BYTES + 1])
def test_chunks_that_cannot_be(chunk_bytes: int) -> None:
    with pytest.raises(ValueError, match="chunk"):
        read_columns(b"", chunk_bytes=chunk_bytes)


def test_the_largest_chunk() -> None:
    (chunk,) = read_columns(batch(), chunk_bytes=LARGEST_CHUNK_BYTES)
    assert chunk.num_rows == 10


def test_the_filler_says_what_it_needs() -> None:
    log = batch(3, value=bytes(50), headers=(("name", b"x"), ("\udcff", None)))
    made = filler()
    made.open(only_batch(log))
    assert not made.fill()
    made.begin(3, 1000, 1000, 3, 1000, 1000)
    assert not made.fill()
    assert (made.rows, made.used) == (1, (1, 1, 50, 2, 7, 1))
    assert made.needed == (1, 1, 50, 2, 7, 1)
    made.begin(*made.needed)
    assert not made.fill()
    made.begin(*made.needed)
    assert made.fill()
    parts = made.finish()
    assert {name: part_bytes for name, (_, part_bytes) in parts.items()} == {
        "offset": 8,
        "timestamp": 8,
        "timestampType": 4,
        "key.ends": 8,
        "key.data": 1,
        "value.ends": 8,
        "value.data": 50,
        "headers.ends": 8,
        "headers.key.ends": 12,
        "headers.key.data": 7,
        "headers.value.validity": 1,
        "headers.value.ends": 12,
        "headers.value.data": 1,
    }
    assert bytes(parts["headers.key.data"][0][:7]) == "name\N{REPLACEMENT CHARACTER}".encode()


def test_the_filler_refuses_what_would_leave_its_buffers() -> None:
    for room in range(6):
        for size in (-1, 2**31):
            with pytest.raises(ValueError, match="room"):
                filler().begin(*ROOM[:room], size, *ROOM[room + 1 :])
    with pytest.raises(ValueError, match="asked for"):
        filler(allocate=lambda size_bytes: bytearray(size_bytes - 1)).begin(*ROOM)
    with pytest.raises(BufferError):
        filler(allocate=bytes).begin(*ROOM)
    with pytest.raises(IndexError):
        filler().run(PinnedBuffer(b""), 0, 1, 0)


def test_the_filler_reads_one_batch_at_a_time() -> None:
    made = filler()
    made.open(only_batch(batch()))
    with pytest.raises(ValueError, match="used up"):
        made.open(only_batch(batch()))
    with pytest.raises(ValueError, match="used up"):
        made.run(PinnedBuffer(batch()), 0, 0, 0)


def test_the_filler_wants_records_only() -> None:
    made = filler()
    for argument in (None, b"", object()):
        with pytest.raises(TypeError):
            made.wants(argument)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            made.open(argument)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            made.run(argument, 0, 0, 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            made.append(argument, argument)  # type: ignore[arg-type]


def test_a_batch_that_changes_while_it_is_read() -> None:
    log = bytearray(batch(100, value=bytes(100)))
    made = filler()
    made.begin(10, 1000, 10_000, 0, 0, 0)
    assert made.run(PinnedBuffer(log), 0, len(log), 0) == len(log)
    assert made.rows == 10
    log[2000:] = b"\xff" * (len(log) - 2000)
    made.begin(100, 1000, 20_000, 0, 0, 0)
    with pytest.raises(MalformedRecordsError, match="changed"):
        made.fill()
    assert made.rows == 0


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-compaction"])
def test_what_brokers_wrote(datasets: Callable[[str], Path], name: str) -> None:
    logs = sorted(datasets(name).rglob("*.log"))
    assert logs
    read = 0
    for path in logs:
        log = path.read_bytes()
        expected = [record for found in read_batches(log) for record in found.records()]
        for chunk_bytes in (5000, 2 * MIB):
            rows = [
                row
                for chunk in read_columns(log, include_control=True, chunk_bytes=chunk_bytes)
                for row in chunk.select(["offset", "key", "value"]).to_pylist()
            ]
            assert rows == [{"offset": each.offset, "key": each.key, "value": each.value} for each in expected]
        read += len(expected)
    assert read > 0
