"""`kafkafs.open` and the types that it gives; users import them from `kafkafs`.

The library stands on the rooms that the command line, Spark and the mount stand on: locator for names and times, render
for what is appended, storage for everything else.
"""

from __future__ import annotations

from kafkafs.library.partition import Partition
from kafkafs.library.record import Record, Row
from kafkafs.library.store import Store, open  # noqa: A004 -- as gzip and io call theirs
from kafkafs.library.topic import Topic
from kafkafs.locator.errors import BadNameError
from storage.errors import (
    ConfigError,
    CorruptBatchError,
    CorruptIndexError,
    DiskFullError,
    InvalidRecordError,
    InvalidTopicError,
    NotAStoreError,
    PoisonedLogError,
    ReadOnlyStoreError,
    RecordsGoneError,
    StorageError,
    StoreLockedError,
    TopicExistsError,
    UnknownPartitionError,
)
from storage.verify import Finding

__all__ = [
    "BadNameError",
    "ConfigError",
    "CorruptBatchError",
    "CorruptIndexError",
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
    "open",
]
