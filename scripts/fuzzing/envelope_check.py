"""What must hold when the same bytes are read as lines of envelopes: those of the records, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX
from fuzzing.reading import check_error, in_exact_memory
from kafkafs.render.envelope import Envelope
from storage.errors import StorageError
from storage.record import RecordBatch, envelope_lines, envelope_lines_size

if TYPE_CHECKING:
    from fuzzing.reading import LogReading

ENVELOPE = Envelope("topic", 0)


def check_envelopes(log: LogReading) -> None:
    """Raise `Finding` unless the lines are those of the records that have been read."""
    for reading in log.batches:
        if isinstance(reading.batch, RecordBatch):
            _check_batch(reading.batch, is_read=reading.error is None)


def _check_batch(batch: RecordBatch, *, is_read: bool) -> None:
    try:
        # Memory that ends with the records, so that reading on after them is found out.
        records_data = in_exact_memory(bytes(batch.records_data(limit_bytes=OUTPUT_BYTES_MAX)))
        found = envelope_lines(batch, records_data, ENVELOPE.beginning)
        size = envelope_lines_size(batch, records_data, ENVELOPE.beginning)
    except StorageError as error:
        check_error(error, batch.position)
        if is_read and batch.count:
            raise Finding("envelopes are refused and records are not", str(error)) from error
        return
    expected = b"".join(map(ENVELOPE.line, batch.records(limit_bytes=OUTPUT_BYTES_MAX))) if is_read else None
    if found != expected or size != len(found):
        raise Finding("envelopes of a batch differ from those of its records", f"{found!r} of {size}, not {expected!r}")
