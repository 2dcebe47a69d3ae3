"""The on-disk layout of record batches: every struct and constant, each with what it means, and nothing else.

All integers are big-endian. `batch`, `legacy` and `control` say how the fields work together.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

# What every batch and every legacy entry begins with.
LOG_OVERHEAD_BYTES: Final = 12  # i64 offset, i32 length; the length counts what follows these
MAGIC_AT: Final = 16
CURRENT_MAGIC: Final = 2

# The header of a v2 batch.
BATCH_HEADER: Final = Struct(
    ">"
    "q"  # base offset: of the first record the batch was written with
    "i"  # batch length: what follows these first 12 bytes
    "i"  # partition leader epoch: stamped by the broker
    "b"  # magic: 2
    "I"  # CRC-32C of everything from the attributes to the end, as stored (compressed)
    "h"  # attributes; only the low byte is read
    "i"  # last offset delta: survives compaction, so it may exceed count - 1
    "q"  # base timestamp: what the records' deltas count from, or the delete horizon
    "q"  # max timestamp: the largest of the records, or the append time of all of them
    "q"  # producer id, -1 for none
    "h"  # producer epoch, -1 for none
    "i"  # base sequence: of the first record, -1 for none
    "i"  # count of records
)
BATCH_HEADER_BYTES: Final = 61
CRC_COVERS_FROM: Final = 21

# An entry of a v0 or v1 message set, up to its key.
ENTRY_V0: Final = Struct(">qiIbbi")  # offset, size, CRC-32 of the rest, magic, attributes, key size
ENTRY_V1: Final = Struct(">qiIbbqi")  # the same with a timestamp before the key size
ENTRY_CRC_COVERS_FROM: Final = 16

# Attribute bits, the same in all versions as far as a version has them.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

# Values that mean "none".
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

LAST_SEQUENCE: Final = 2**31 - 1  # the next one is 0
LARGEST_OFFSET_DELTA: Final = 2**31 - 1

# Control records.
CONTROL_KEY: Final = Struct(">hh")  # version, type
END_TRANSACTION_VALUE: Final = Struct(">hi")  # version, coordinator epoch


class TimestampType(IntEnum):
    """The party that set a record's timestamp; `label` is what Kafka's tools print."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name in Kafka's own spelling."""
        return _TIMESTAMP_TYPE_LABELS[self]


_TIMESTAMP_TYPE_LABELS: Final = {
    TimestampType.NONE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


class ControlType(IntEnum):
    """The type of a control record; a reader must skip numbers that it does not know."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
