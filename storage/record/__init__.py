"""Bytes and records: the room that every other one stands on.

Reading: `read_batches` walks a buffer and gives `RecordBatch` (v2) and `LegacyBatch` (v0 and v1) values, which give
`Record`s. Writing: `batches_of_rows` and `batches_of_lines` pack new records; `recompressed`, `retaining` and `merged`
make batches of batches. `run_lines` reads values or keys in bulk. Arrow columns are in `storage.record.columns`, the
only module here that needs pyarrow: import it where they are used.
"""

from __future__ import annotations

from storage.record.batch import RecordBatch
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec, codec_of, decompressors
from storage.record.control import (
    Control,
    EndTransactionMarker,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    Voter,
    control_type_of,
    decode_control,
)
from storage.record.encoding import (
    DEFAULT_FORM,
    BatchForm,
    Headers,
    Row,
    batches_of_lines,
    batches_of_rows,
    marker_batch,
)
from storage.record.kernel.decode import Record, RecordIterator
from storage.record.kernel.dump import record_line
from storage.record.kernel.envelopes import envelope_lines, envelope_lines_size, envelope_run_size, json_member
from storage.record.kernel.matching import Criteria
from storage.record.kernel.pinned_buffer import LeasedBuffer
from storage.record.kernel.records_data import EncodedBatch
from storage.record.kernel.summary import summarize_records
from storage.record.kernel.values import run_lines
from storage.record.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    LAST_SEQUENCE,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    ControlType,
    TimestampType,
)
from storage.record.leased import (
    RECORD_BYTES,
    TRIALS,
    UNLEASED_BYTES_MAX,
    begin_trial,
    check_share,
    end_trial,
    lease_if_large,
)
from storage.record.legacy import LegacyBatch, LegacyEntry
from storage.record.legacy_encoding import encode_entries, encode_wrapper
from storage.record.reading import Batch, read_batches
from storage.record.rewriting import assign_offset, merged, recompressed, retaining

__all__ = [
    "BATCH_HEADER_BYTES",
    "CODEC_MASK",
    "CONTROL_BIT",
    "DEFAULT_FORM",
    "DEFAULT_OUTPUT_LIMIT_BYTES",
    "LAST_SEQUENCE",
    "LOG_OVERHEAD_BYTES",
    "MAGIC_AT",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "RECORD_BYTES",
    "TRANSACTIONAL_BIT",
    "TRIALS",
    "UNLEASED_BYTES_MAX",
    "Batch",
    "BatchForm",
    "Codec",
    "Control",
    "ControlType",
    "Criteria",
    "EncodedBatch",
    "EndTransactionMarker",
    "Headers",
    "KRaftVersion",
    "KRaftVoter",
    "KRaftVoters",
    "LeaderChange",
    "LeasedBuffer",
    "LegacyBatch",
    "LegacyEntry",
    "Record",
    "RecordBatch",
    "RecordIterator",
    "Row",
    "SnapshotFooter",
    "SnapshotHeader",
    "TimestampType",
    "UnknownControl",
    "Voter",
    "assign_offset",
    "batches_of_lines",
    "batches_of_rows",
    "begin_trial",
    "check_share",
    "codec_of",
    "control_type_of",
    "decode_control",
    "decompressors",
    "encode_entries",
    "encode_wrapper",
    "end_trial",
    "envelope_lines",
    "envelope_lines_size",
    "envelope_run_size",
    "json_member",
    "lease_if_large",
    "marker_batch",
    "merged",
    "read_batches",
    "recompressed",
    "record_line",
    "retaining",
    "run_lines",
    "summarize_records",
]
