"""The indexes of a segment built from its batches, as recovery does.

They are built in memory, within the sizes that the topic allows, and replace the old ones at the end, the offset index
last: as long as that is missing or old, recovery after a crash builds all of them again. A file that has the same
entries already stays as it is.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final

from storage.record.layout import NO_TIMESTAMP
from storage.segment.index.entries import AbortedTransaction
from storage.segment.index.offset import OffsetIndex
from storage.segment.index.time import TimeIndex
from storage.segment.index.txn import TransactionIndex
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import FileSuffix, Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction
    from storage.segment.segment import Segment


_KINDS: Final = (Kind.TRANSACTION_INDEX, Kind.TIME_INDEX, Kind.OFFSET_INDEX)


class IndexChange(Enum):
    """The changes that writing an index made in its file."""

    MADE = "made"  # there was none
    TRIMMED = "trimmed"  # it had these entries, and unused slots at its end
    REPLACED = "replaced"  # it had other entries


class IndexBuilder:
    """Builds the indexes of a segment from all of its batches, added in order."""

    def __init__(self, base_offset: int, config: TopicConfig) -> None:
        self._base_offset = base_offset
        self._interval_bytes = config.index_interval_bytes
        self._offset_bytes_max = config.segment_index_bytes // OffsetIndex.entry_bytes * OffsetIndex.entry_bytes
        # One slot is kept for the final entry.
        self._time_bytes_max = (config.segment_index_bytes // TimeIndex.entry_bytes - 1) * TimeIndex.entry_bytes
        self._offsets = bytearray()
        self._times = bytearray()
        self._transactions = bytearray()
        self._entry_position = 0  # of the batch that the last entry points to
        self._largest_timestamp = NO_TIMESTAMP
        self._largest_offset = base_offset
        self._indexed_timestamp = NO_TIMESTAMP

    def add(self, batch: Batch, position: int) -> None:
        """Index the next batch, which lies at this position of the segment."""
        timestamp, last_offset = batch.max_timestamp, batch.last_offset
        if timestamp > self._largest_timestamp:
            self._largest_timestamp, self._largest_offset = timestamp, last_offset
        if position - self._entry_position > self._interval_bytes:
            self._entry_position = position
            base_offset = self._base_offset
            if len(self._offsets) < self._offset_bytes_max:
                self._offsets += OffsetIndex.pack(last_offset - base_offset, position)
            largest = self._largest_timestamp
            if largest > self._indexed_timestamp and len(self._times) < self._time_bytes_max:
                self._times += TimeIndex.pack(largest, self._largest_offset - base_offset)
                self._indexed_timestamp = largest

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Index a transaction that the last batch aborts."""
        self._transactions += TransactionIndex.pack(transaction)

    def write(self, segment: Segment, kinds: Collection[Kind] = _KINDS) -> dict[Kind, IndexChange]:
        """Write the segment's indexes, or those of some kinds, in the form that an inactive segment's have.

        They are on disk when this returns. Returns which files changed, and how. A transaction index is only made if it
        has entries, and only emptied if there is one.
        """
        self._finish()
        data = {
            Kind.TRANSACTION_INDEX: self._transactions,
            Kind.TIME_INDEX: self._times,
            Kind.OFFSET_INDEX: self._offsets,
        }
        changes = {}
        for kind in _KINDS:
            change = _write(segment.directory, segment.name(kind), data[kind], kind) if kind in kinds else None
            if change is not None:
                changes[kind] = change
        segment.directory.sync()
        return changes

    def write_cleaned(self, segment: Segment) -> None:
        """Write the indexes as `.cleaned`, beside a segment that is to replace others. Their contents are then on disk.

        A transaction index is only made if it has entries.
        """
        self._finish()
        if self._transactions:
            _write_cleaned(segment.directory, segment.name(Kind.TRANSACTION_INDEX), self._transactions)
        _write_cleaned(segment.directory, segment.name(Kind.TIME_INDEX), self._times)
        _write_cleaned(segment.directory, segment.name(Kind.OFFSET_INDEX), self._offsets)

    def _finish(self) -> None:
        if self._largest_timestamp > self._indexed_timestamp:
            self._times += TimeIndex.pack(self._largest_timestamp, self._largest_offset - self._base_offset)
            self._indexed_timestamp = self._largest_timestamp


def _write(directory: Directory, name: str, data: bytearray, kind: Kind) -> IndexChange | None:
    """Make the file hold the data, durably; return the change, None if the file held it already."""
    status = directory.status(name)
    if status is None:
        if kind is Kind.TRANSACTION_INDEX and not data:
            return None
        change = IndexChange.MADE
    else:
        with directory.open_writing(name) as file:
            is_begun = file.read_at(0, len(data)) == data
            size_bytes = file.size_bytes()
            if is_begun and size_bytes == len(data):
                file.sync()
                return None
            is_tail_unused = is_begun and is_zero(file, len(data), size_bytes)
        change = IndexChange.TRIMMED if is_tail_unused else IndexChange.REPLACED
    directory.rename(_write_cleaned(directory, name, data), name)
    return change


def _write_cleaned(directory: Directory, name: str, data: bytearray) -> str:
    unfinished = f"{name}{FileSuffix.CLEANED}"  # a suffix for which every broker removes the file
    try:
        with directory.open_writing(unfinished, create=True) as file:
            file.truncate(0)
            file.write_at(0, [data])
            file.sync()
    except OSError:
        with suppress(OSError):  # on a full disk each block counts
            directory.remove(unfinished)
        raise
    return unfinished
