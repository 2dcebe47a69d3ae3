"""The record codec beside aiokafka, kafka-python, memcpy and the bare decompressors, in one run."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import cramjam
import lz4.frame
import pyarrow as pa
import zstandard
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from isal import isal_zlib
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder
from kafka.record.memory_records import MemoryRecords as KafkaRecords
from segments import SEGMENT_BYTES, Row, Shape, rows, segment
from timing import Scoreboard, medians_seconds

from kafkafs.render.envelope import Envelope
from storage.record import Codec, batches_of_lines, batches_of_rows, envelope_lines, envelope_lines_size, read_batches
from storage.record.columns import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL, LARGE = 16 * 1024, 1024 * 1024
XERIAL_HEADER_BYTES = 16
COLUMNS = ("offset", "timestamp", "key", "value")
ENVELOPE = Envelope("orders", 3)


def peer_batches(memory_records: type, data: bytes) -> Iterator[object]:
    walk = memory_records(data)
    while walk.has_next():
        yield walk.next_batch()


def iterate_peer(memory_records: type, data: bytes, with_headers: bool) -> None:
    records = chain.from_iterable(peer_batches(memory_records, data))
    touch(records, with_headers)


def iterate_ours(data: bytes, with_headers: bool) -> None:
    touch(chain.from_iterable(batch.records() for batch in read_batches(data)), with_headers)


def touch(records: Iterator[object], with_headers: bool) -> None:
    if with_headers:
        for record in records:
            record.offset, record.timestamp, record.key, record.value, record.headers
    else:
        for record in records:
            record.offset, record.timestamp, record.key, record.value


def columns_peer(memory_records: type, data: bytes) -> pa.RecordBatch:
    offsets, timestamps, keys, values = [], [], [], []
    for record in chain.from_iterable(peer_batches(memory_records, data)):
        offsets.append(record.offset)
        timestamps.append(record.timestamp)
        keys.append(record.key)
        values.append(record.value)
    arrays = [pa.array(offsets, pa.int64()), pa.array(timestamps, pa.int64())]
    return pa.record_batch([*arrays, pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=list(COLUMNS))


def columns_ours(data: bytes, check_crc: bool) -> None:
    for chunk in read_columns(data, columns=COLUMNS, check_crc=check_crc):
        chunk.num_rows


def bare_sections(shape: Shape, data: bytes) -> Callable[[], object]:
    """What the library alone takes for the same sections, told their sizes beforehand."""
    sections = [bytes(batch.view(61, batch.size_bytes)) for batch in read_batches(data)]
    sizes = [len(batch.records_data()) for batch in read_batches(data)]
    context = zstandard.ZstdDecompressor()
    one: dict[Codec, Callable[[bytes, int], object]] = {
        Codec.GZIP: lambda records_data, size: isal_zlib.decompress(records_data, 31, size),
        Codec.SNAPPY: lambda records_data, _size: [
            cramjam.snappy.decompress_raw(block) for block in xerial_blocks(records_data)
        ],
        Codec.LZ4: lambda records_data, _size: lz4.frame.decompress(records_data),
        Codec.ZSTD: lambda records_data, size: context.decompress(records_data, max_output_size=size),
    }
    decompress = one[shape.codec]

    def run() -> None:
        for records_data, size in zip(sections, sizes, strict=True):
            decompress(records_data, size)

    return run


def xerial_blocks(records_data: bytes) -> Iterator[memoryview]:
    view, position = memoryview(records_data), XERIAL_HEADER_BYTES
    while position < len(records_data):
        size = int.from_bytes(view[position : position + 4], "big")
        yield view[position + 4 : position + 4 + size]
        position += 4 + size


def megabytes(data: bytes, seconds: float) -> str:
    return f"{len(data) / seconds / 1e6:.0f} MB/s"


def bench_columns(board: Scoreboard) -> None:
    for value_bytes, target in ((100, 20.0), (1024, 6.0)):
        for batch_bytes in (SMALL, LARGE):
            data = segment(Shape(value_bytes, batch_bytes))
            target_buffer = memoryview(bytearray(len(data)))
            took = medians_seconds(
                {
                    "ours": partial(columns_ours, data, False),
                    "crc": partial(columns_ours, data, True),
                    "aiokafka": partial(columns_peer, AioRecords, data),
                    "kafka-python": partial(columns_peer, KafkaRecords, data),
                    "memcpy": partial(target_buffer.__setitem__, slice(None), data),
                }
            )
            figures = ", ".join(f"{name} {megabytes(data, seconds)}" for name, seconds in took.items())
            label = f"columns / aiokafka: {Shape(value_bytes, batch_bytes)}"
            board.line(label, "", took["aiokafka"] / took["ours"], target)
            board.line("  with checksums", figures, took["aiokafka"] / took["crc"], None)


def bench_compressed_columns(board: Scoreboard) -> None:
    targets = {
        (Codec.GZIP, SMALL): 0.75, (Codec.GZIP, LARGE): 0.75, (Codec.ZSTD, SMALL): 0.75, (Codec.ZSTD, LARGE): 0.75,
        (Codec.SNAPPY, SMALL): 0.65, (Codec.SNAPPY, LARGE): 0.65, (Codec.LZ4, SMALL): 0.50, (Codec.LZ4, LARGE): 0.60,
    }  # fmt: skip
    for (codec, batch_bytes), target in targets.items():
        shape = Shape(100, batch_bytes, codec=codec)
        data = segment(shape)
        took = medians_seconds(
            {
                "ours": partial(columns_ours, data, False),
                "bare": bare_sections(shape, data),
                "aiokafka": partial(columns_peer, AioRecords, data),
            }
        )
        figures = f"{took['aiokafka'] / took['ours']:.1f}x aiokafka"
        board.line(f"columns / bare codec: {shape}", figures, took["bare"] / took["ours"], target, "%")


def bench_iteration(board: Scoreboard) -> None:
    for header_count, target in ((0, 1.5), (3, 1.2)):
        for batch_bytes in (SMALL, LARGE):
            shape = Shape(100, batch_bytes, header_count)
            data, count = segment(shape), len(rows(100, header_count))
            took = medians_seconds(
                {
                    "ours": partial(iterate_ours, data, header_count > 0),
                    "aiokafka": partial(iterate_peer, AioRecords, data, header_count > 0),
                    "kafka-python": partial(iterate_peer, KafkaRecords, data, header_count > 0),
                }
            )
            figures = ", ".join(f"{name} {seconds / count * 1e9:.0f} ns" for name, seconds in took.items())
            board.line(f"iterate / aiokafka: {shape}", figures, took["aiokafka"] / took["ours"], target)


def encode_peer(builder: type, made: list[Row], batch_bytes: int) -> None:
    batch, delta = builder(2, 0, False, -1, -1, -1, batch_bytes), 0
    for timestamp, key, value, headers in made:
        if batch.append(delta, timestamp, key, value, list(headers)) is None:
            batch.build()
            batch, delta = builder(2, 0, False, -1, -1, -1, batch_bytes), 0
            batch.append(delta, timestamp, key, value, list(headers))
        delta += 1
    batch.build()


def encode_ours(made: list[Row], batch_bytes: int) -> None:
    for _ in batches_of_rows(made, max_bytes=batch_bytes):
        pass


def bench_encoding(board: Scoreboard) -> None:
    for value_bytes, header_count in ((100, 0), (1024, 0), (100, 3)):
        for batch_bytes in (SMALL, LARGE):
            made = rows(value_bytes, header_count)
            took = medians_seconds(
                {
                    "ours": partial(encode_ours, made, batch_bytes),
                    "aiokafka": partial(encode_peer, AioBuilder, made, batch_bytes),
                    "kafka-python": partial(encode_peer, KafkaBuilder, made, batch_bytes),
                },
                rounds=5,
            )
            figures = ", ".join(f"{name} {seconds / len(made) * 1e9:.0f} ns" for name, seconds in took.items())
            label = f"encode / aiokafka: {Shape(value_bytes, batch_bytes, header_count)}"
            board.line(label, figures, took["aiokafka"] / took["ours"], 3.0)


def lines_ours(block: bytes) -> None:
    for _ in batches_of_lines(block, timestamp_ms=1_700_000_000_000, max_bytes=1 << 30):
        pass


def lines_peer(builder: type, block: bytes) -> None:
    batch = builder(2, 0, False, -1, -1, -1, 1 << 30)
    for delta, line in enumerate(block.splitlines()):
        batch.append(delta, 1_700_000_000_000, None, line, [])
    batch.build()


def bench_lines(board: Scoreboard) -> None:
    for line_bytes in (20, 100, 1000):
        block = b"".join(row[2][: line_bytes - 1] + b"\n" for row in rows(1024, 0))[: 1 << 20]
        took = medians_seconds(
            {
                "ours": partial(lines_ours, block),
                "aiokafka": partial(lines_peer, AioBuilder, block),
                "kafka-python": partial(lines_peer, KafkaBuilder, block),
            }
        )
        figures = ", ".join(f"{name} {megabytes(block, seconds)}" for name, seconds in took.items())
        board.line(f"lines / aiokafka: {line_bytes} B", figures, took["aiokafka"] / took["ours"], 6.0)


def walk_ours(data: bytes) -> None:
    for batch in read_batches(data):
        batch.check_crc()


def walk_peer(memory_records: type, data: bytes) -> None:
    for batch in peer_batches(memory_records, data):
        assert batch.validate_crc()


def bench_walk(board: Scoreboard) -> None:
    for batch_bytes in (SMALL, LARGE):
        data = segment(Shape(100, batch_bytes))
        took = medians_seconds(
            {
                "ours": partial(walk_ours, data),
                "aiokafka": partial(walk_peer, AioRecords, data),
                "kafka-python": partial(walk_peer, KafkaRecords, data),
            }
        )
        figures = ", ".join(f"{name} {megabytes(data, seconds)}" for name, seconds in took.items())
        label = f"walk with CRC / aiokafka: {Shape(100, batch_bytes)}"
        board.line(label, figures, took["aiokafka"] / took["ours"], 4.0)


def envelopes_by_record(data: bytes) -> None:
    for batch in read_batches(data):
        b"".join(map(ENVELOPE.line, batch.records()))


def envelopes_by_batch(make: Callable[..., object], data: bytes) -> None:
    for batch in read_batches(data):
        make(batch, batch.records_data(), ENVELOPE.beginning)


def bench_envelopes(board: Scoreboard) -> None:
    for value_bytes, header_count in ((100, 0), (1024, 0), (100, 3)):
        for batch_bytes in (SMALL, LARGE):
            shape = Shape(value_bytes, batch_bytes, header_count)
            data, count = segment(shape), len(rows(value_bytes, header_count))
            took = medians_seconds(
                {
                    "written": partial(envelopes_by_batch, envelope_lines, data),
                    "counted": partial(envelopes_by_batch, envelope_lines_size, data),
                    "one by one": partial(envelopes_by_record, data),
                },
                rounds=5,
            )
            figures = ", ".join(f"{name} {seconds / count * 1e9:.0f} ns" for name, seconds in took.items())
            board.line(f"envelopes / Envelope.line: {shape}", figures, took["one by one"] / took["written"], 5.0)


def main() -> int:
    board = Scoreboard()
    print(f"segments of {SEGMENT_BYTES / 1e6:.0f} MB; medians of CPU time, contenders in turn")
    for bench in (
        bench_columns,
        bench_compressed_columns,
        bench_iteration,
        bench_encoding,
        bench_lines,
        bench_walk,
        bench_envelopes,
    ):
        bench(board)
    for miss in board.missed:
        print(f"target missed: {miss}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
