"""What must hold when the same bytes are read as lines: those of the records, and none of what is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX
from fuzzing.reading import in_exact_memory
from storage.record import CODEC_MASK, RecordBatch, decompressors, read_batches, run_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzzing.reading import BatchReading, LogReading

FAR = 2**63 - 1
DECOMPRESSORS = decompressors(limit_bytes=OUTPUT_BYTES_MAX)


def check_values(data: bytes, log: LogReading) -> None:
    """Raise `Finding` unless the lines are those of what has been read from the same data."""
    for index, batch in zip(range(len(log.batches)), read_batches(in_exact_memory(data)), strict=False):
        if isinstance(batch, RecordBatch):
            for of_keys in (False, True):
                _check_run(batch, log.batches[index:], of_keys=of_keys)
                _check_compressed(batch, log.batches[index], of_keys=of_keys)


def _check_run(first: RecordBatch, readings: Sequence[BatchReading], *, of_keys: bool) -> None:
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
            lines += _lines(reading, of_keys=of_keys)
        last, reached = batch.position, batch.position + batch.size_bytes
    expected = (reached - first.position, last - first.position, lines)
    found = run_lines(first, FAR, FAR, True, of_keys=of_keys)
    if found != expected:
        raise Finding("a run of lines is wrong", f"{found}, not {expected}")
    if run_lines(first, FAR, FAR, True, of_keys=of_keys, only_size=True) != (*expected[:2], len(lines)):
        raise Finding("a run of lines is counted wrongly", f"not {expected[:2]}, {len(lines)}")


def _check_compressed(batch: RecordBatch, reading: BatchReading, *, of_keys: bool) -> None:
    """A run of one batch has its lines exactly if its records can be read, by a codec that exists."""
    end = batch.position + batch.size_bytes
    log_bytes, _, lines = run_lines(batch, end, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS)
    counted = run_lines(batch, end, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS, only_size=True)
    if counted[::2] != (log_bytes, len(lines)):
        raise Finding("a batch's lines are counted wrongly", f"{counted}, not {log_bytes}, {len(lines)}")
    is_readable = reading.checksums_match and reading.error is None and batch.count >= 0 and batch.base_offset < FAR
    # Without records nothing is decompressed, so that reading them does not notice.
    is_readable = is_readable and batch.attributes & CODEC_MASK < len(DECOMPRESSORS)
    expected = (
        (batch.size_bytes, b"" if batch.is_control else _lines(reading, of_keys=of_keys)) if is_readable else (0, b"")
    )
    if not batch.is_control and (log_bytes, lines) != expected:
        raise Finding("lines differ from records", f"{lines!r}, {reading.rows}, {reading.error}")


def _lines(reading: BatchReading, *, of_keys: bool) -> bytes:
    return b"".join((row[3 if of_keys else 4] or b"") + b"\n" for row in reading.rows)
