"""A segment's indexes: from an offset or a time to a place in the log, and the transactions that were aborted.

Each kind has a reader, for files that other processes may write, and a writer. Both answer the same questions.
"""

from __future__ import annotations

from storage.segment.index.entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    OffsetEntry,
    TimeEntry,
)
from storage.segment.index.offset import OffsetIndexReader
from storage.segment.index.stale_tail import StaleTail
from storage.segment.index.time import TimeIndexReader
from storage.segment.index.txn import TransactionIndexReader
from storage.segment.index.zero_tail import is_zero

__all__ = [
    "OFFSET_ENTRY",
    "TIME_ENTRY",
    "TRANSACTION_ENTRY",
    "AbortedTransaction",
    "OffsetEntry",
    "OffsetIndexReader",
    "StaleTail",
    "TimeEntry",
    "TimeIndexReader",
    "TransactionIndexReader",
    "is_zero",
]
