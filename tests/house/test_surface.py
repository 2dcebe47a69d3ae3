"""The public surface, pinned: a name is added, renamed or dropped on purpose, and here as well."""

from __future__ import annotations

from importlib import import_module

import pytest

SURFACE = {
    "kafkafs": [
        "BadNameError",
        "ConfigError",
        "CorruptBatchError",
        "DiskFullError",
        "Finding",
        "InvalidRecordError",
        "InvalidTopicError",
        "NotAStoreError",
        "Partition",
        "PoisonedLogError",
        "ReadOnlyStoreError",
        "Record",
        "RecordsGoneError",
        "Row",
        "StorageError",
        "Store",
        "StoreLockedError",
        "Topic",
        "TopicExistsError",
        "UnknownPartitionError",
        "__version__",
        "open",
    ],
    "storage": ["Clock", "Files", "Log", "StorageError", "StoreConfig", "TopicConfig", "open_sound_log"],
    "storage.internal": ["Definition", "KeyedRecord", "Message", "Outcome", "Raw", "Release"],
    "storage.record": [
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
        "batches_of_lines",
        "batches_of_rows",
        "decode_control",
        "encode_entries",
        "encode_wrapper",
        "marker_batch",
        "assign_offset",
        "read_batches",
        "recompressed",
        "retaining",
        "with_append_time",
    ],
    "storage.rewrite": [
        "ATTEMPT_SUFFIX",
        "RewriteRules",
        "StoreBuilder",
        "built_topics",
        "copy_compacted",
        "copy_rewritten",
        "copy_staged",
    ],
    "storage.split": [
        "DEFAULT_SPLIT_BYTES",
        "TIME_COLUMNS",
        "BatchReader",
        "BatchRun",
        "PartitionPlace",
        "RecordCounter",
        "RecordReader",
        "Split",
        "SplitReader",
        "Stretch",
        "packed",
        "splits_of",
    ],
    "storage.verify": [
        "CutPartition",
        "Finding",
        "FindingKind",
        "PartitionResult",
        "PartitionTarget",
        "SegmentPiece",
        "SegmentResult",
        "Severity",
        "Verification",
        "verify_partition",
    ],
}


@pytest.mark.parametrize("package", SURFACE)
def test_the_public_names_are_these(package: str) -> None:
    assert sorted(import_module(package).__all__) == sorted(SURFACE[package])


@pytest.mark.parametrize("package", SURFACE)
def test_each_public_name_is_there(package: str) -> None:
    module = import_module(package)
    assert [name for name in SURFACE[package] if not hasattr(module, name)] == []
