"""What must hold when the same bytes are read as lines of values: those of the records, and none of what is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX
from fuzzing.reading import check_error, in_exact_memory
from storage.errors import StorageError
from storage.record import CODEC_MASK, RecordBatch, batch_lines, batch_lines_size, read_batches, run_lines, run_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzzing.reading import BatchReading, LogReading

FAR = 2**63 - 1


def check_values(data: bytes, log: LogReading) -> None:
    """Raise `Finding` unless the lines are those of what has been read from the same data."""
    for index, batch in zip(range(len(log.batches)), read_batches(in_exact_memory(data)), strict=False):
        if isinstance(batch, RecordBatch):
            _check_run(batch, log.batches[index:])
            _check_section(batch, log.batches[index])


def _check_run(first: RecordBatch, readings: Sequence[BatchReading]) -> None:
    """A run has every batch that needs no closer look, and ends before the first that does."""
    reached = last = first.position
    lines = b""
    for reading in readings:
        batch = reading.batch
        if not isinstance(batch, RecordBatch) or batch.attributes & CODEC_MASK or not reading.checksums_match:
            break
        if batch.count < 0 or (reading.error is not None and not batch.is_control) or batch.base_offset >= FAR:
            break
        if not batch.is_control:
            lines += _lines(reading)
        last, reached = batch.position, batch.position + batch.size_bytes
    expected = (reached - first.position, last - first.position, lines)
    found = run_lines(first, FAR, FAR, True)
    if found != expected:
        raise Finding("a run of values is wrong", f"{found}, not {expected}")
    if run_size(first, FAR, FAR, True) != (*expected[:2], len(lines)):
        raise Finding("a run of values is counted wrongly", f"not {expected[:2]}, {len(lines)}")


def _check_section(batch: RecordBatch, reading: BatchReading) -> None:
    try:
        records_data = batch.records_data(limit_bytes=OUTPUT_BYTES_MAX)
        found = batch_lines(batch, records_data)
        size = batch_lines_size(batch, records_data)
    except StorageError as error:
        check_error(error, batch.position)
        if reading.error is None and batch.count:
            raise Finding("values are refused and records are not", str(error)) from error
        return
    if reading.error is not None or found != _lines(reading) or size != len(found):
        raise Finding("values differ from records", f"{found!r} of {size}, {reading.rows}, {reading.error}")


def _lines(reading: BatchReading) -> bytes:
    return b"".join((row[4] or b"") + b"\n" for row in reading.rows)
