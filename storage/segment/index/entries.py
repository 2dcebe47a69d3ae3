"""The entries of a segment's indexes, as the files hold them. All offsets but a transaction's are relative.

An offset is stored less the segment's base offset.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

OFFSET_ENTRY: Final = Struct(">ii")  # the last offset of a batch, and the batch's position
TIME_ENTRY: Final = Struct(">qi")  # a timestamp, and the last offset of its batch
TRANSACTION_ENTRY: Final = Struct(">hqqqq")  # the version, and the fields of `AbortedTransaction`
TRANSACTION_ENTRY_VERSION: Final = 0


class OffsetEntry(NamedTuple):
    """A batch that ends with `offset` begins at `position`."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """No batch up to the one that ends with `offset` has a timestamp above this one."""

    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    """A producer's records from `first_offset` to its marker at `last_offset`, none of which was committed.

    `last_stable_offset` is the log's once the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
