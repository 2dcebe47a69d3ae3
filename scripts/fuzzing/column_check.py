"""What must hold when the same bytes are read as columns: all rows of undamaged batches, then the error."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX, within_limits
from fuzzing.reading import check_error, in_exact_memory
from storage.errors import StorageError
from storage.record import RecordBatch
from storage.record.columns import COLUMN_TYPES, read_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from fuzzing.reading import BatchReading, LogReading

Row: TypeAlias = tuple[Any, ...]

TIMESTAMP, INTEGER = COLUMN_TYPES["timestamp"], COLUMN_TYPES["offset"]
CHUNKS_BYTES = (1, 100, 1000, 1 << 16)
OFFSET_RANGES = ((None, None), (None, None), (None, None), (1000, None), (None, 2**31), (1, 2**40), (2, 1))


def check_columns(data: bytes, log: LogReading) -> None:
    """Raise `Finding` unless the columns hold what has been read from the same data; how they are asked for varies."""
    choice = zlib.crc32(data)
    columns = [name for index, name in enumerate(COLUMN_TYPES) if choice & 3 or choice >> index & 4] or ["offset"]
    check_crc, include_control = bool(choice & 4), bool(choice & 8)
    first_offset, end_offset = OFFSET_RANGES[choice % len(OFFSET_RANGES)]

    def read() -> tuple[list[Row], StorageError | None]:
        rows: list[Row] = []
        try:
            for chunk in read_columns(
                in_exact_memory(data),
                columns=columns,
                chunk_bytes=CHUNKS_BYTES[choice >> 4 & 3],
                limit_bytes=OUTPUT_BYTES_MAX,
                check_crc=check_crc,
                include_control=include_control,
                first_offset=first_offset,
                end_offset=end_offset,
            ):
                rows.extend(_rows(chunk))
        except StorageError as error:
            return rows, error
        return rows, None

    rows, error = within_limits(read)
    expected, position = _expected(log, check_crc=check_crc, include_control=include_control)
    if first_offset is None and end_offset is None:
        _compare(rows, [tuple(row[name] for name in columns) for row in expected])
        if (error is None) != (position is None):
            raise Finding("columns end differently from records", f"{error}, expected at {position}")
        if error is not None and position is not None:
            check_error(error, position)
    elif _is_orderly(log):
        chosen = [row for row in expected if _holds(row["offset"], first_offset, end_offset)]
        _compare(rows, [tuple(row[name] for name in columns) for row in chosen])


def _compare(rows: list[Row], expected: list[Row]) -> None:
    if rows != expected:
        raise Finding("columns differ from records", f"{rows}, not {expected}")


def _is_orderly(log: LogReading) -> bool:
    """Whether offsets rise from one end of an undamaged log to the other, as reading a part of it relies on."""
    if any(reading.error is not None or not reading.checksums_match for reading in log.batches):
        return False
    bounds: list[int] = []
    for reading in log.batches:
        base = [reading.batch.base_offset] if isinstance(reading.batch, RecordBatch) else []
        bounds += [*base, *(row[0] for row in reading.rows), reading.batch.last_offset]
    return bounds == sorted(bounds)


def _holds(offset: int, first_offset: int | None, end_offset: int | None) -> bool:
    return (first_offset is None or offset >= first_offset) and (end_offset is None or offset < end_offset)


def _rows(chunk: pa.RecordBatch) -> Iterator[Row]:
    chunk.validate(full=True)
    if not chunk.num_rows:
        raise Finding("a chunk is empty")
    # As datetimes, many a timestamp would be too large.
    columns: list[Any] = [column.view(INTEGER) if column.type == TIMESTAMP else column for column in chunk.columns]
    return zip(*(column.to_pylist() for column in columns), strict=True)


def _expected(log: LogReading, *, check_crc: bool, include_control: bool) -> tuple[list[dict[str, Any]], int | None]:
    """The rows there should be, and where the error should be."""
    rows: list[dict[str, Any]] = []
    for reading in log.batches:
        batch = reading.batch
        if check_crc and not reading.checksums_match:
            return rows, batch.position
        if isinstance(batch, RecordBatch) and batch.is_control and not include_control:
            continue
        if reading.error is not None:
            return rows, batch.position
        rows.extend(_expected_rows(reading))
    return rows, None if log.error is None else log.position


def _expected_rows(reading: BatchReading) -> Iterator[dict[str, Any]]:
    batch = reading.batch
    of_batch = {
        "producerId": -1,
        "producerEpoch": -1,
        "isTransactional": False,
        "isControl": False,
        "leaderEpoch": -1,
        "position": batch.position,
    }
    if isinstance(batch, RecordBatch):
        of_batch |= {
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "leaderEpoch": batch.leader_epoch,
        }
    for row, timestamp_type in zip(reading.rows, reading.timestamp_types, strict=True):
        offset, timestamp, sequence, key, value, headers = row
        yield of_batch | {
            "offset": offset,
            "timestamp": timestamp,
            "timestampType": timestamp_type,
            "key": key,
            "value": value,
            "headers": [{"key": _replaced(name), "value": data} for name, data in headers],
            "sequence": sequence,
            "codec": batch.codec.label,
        }


def _replaced(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
