"""Bytes and records: what every other part of storage stands on.

Reading: `read_batches` walks a buffer and gives `RecordBatch` (v2) and `LegacyBatch` (v0 and v1) values, which give
`Record`s. Columns for Arrow are in `storage.record.columns`, which is imported only where pyarrow is wanted.
"""

from __future__ import annotations

from storage.record.batch import RecordBatch
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec
from storage.record.control import decode_control, encode_end_transaction
from storage.record.kernel.decode import Record
from storage.record.layout import ControlType, TimestampType
from storage.record.legacy import LegacyBatch
from storage.record.legacy_encoding import encode_entries, encode_wrapper
from storage.record.reading import Batch, read_batches

__all__ = [
    "DEFAULT_OUTPUT_LIMIT_BYTES",
    "Batch",
    "Codec",
    "ControlType",
    "LegacyBatch",
    "Record",
    "RecordBatch",
    "TimestampType",
    "decode_control",
    "encode_end_transaction",
    "encode_entries",
    "encode_wrapper",
    "read_batches",
]
