"""Bytes and records: what every other part of storage stands on.

Reading: `read_batches` walks a buffer and gives `RecordBatch` (v2) and `LegacyBatch` (v0 and v1) values, which give
`Record`s. Writing: `batches_of_rows` and `batches_of_lines` pack new records, `rewriting`'s functions make batches of
batches. Columns for Arrow are in `storage.record.columns`, which is imported only where pyarrow is wanted.
"""

from __future__ import annotations

from storage.record.batch import RecordBatch
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec
from storage.record.control import EndTransactionMarker, decode_control
from storage.record.encoding import BatchForm, batches_of_lines, batches_of_rows, marker_batch
from storage.record.kernel.decode import Record
from storage.record.layout import ControlType, TimestampType
from storage.record.legacy import LegacyBatch
from storage.record.legacy_encoding import encode_entries, encode_wrapper
from storage.record.reading import Batch, read_batches
from storage.record.rewriting import assign_offset, recompressed, retaining, with_append_time

__all__ = [
    "DEFAULT_OUTPUT_LIMIT_BYTES",
    "Batch",
    "BatchForm",
    "Codec",
    "ControlType",
    "EndTransactionMarker",
    "LegacyBatch",
    "Record",
    "RecordBatch",
    "TimestampType",
    "assign_offset",
    "batches_of_lines",
    "batches_of_rows",
    "decode_control",
    "encode_entries",
    "encode_wrapper",
    "marker_batch",
    "read_batches",
    "recompressed",
    "retaining",
    "with_append_time",
]
