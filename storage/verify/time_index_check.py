"""The entries of a segment's time index compared with the log's batches.

Entries of brokers of any version are right:

- An entry has a timestamp that is the largest up to a batch, and that batch's last offset. 2.2 and some builds of 3.6
  and 3.7 wrote the offset of a record in it; a search that begins there misses nothing.
- A broker that converts records to format 0, which has no timestamps, indexes those that they came with. As nothing up
  to the entry's offset has a later timestamp, or one at all, no search that skips it misses a record.
- Brokers before 0.10.1 made no time index, and later ones give those segments an empty one. A search begins at the
  segment's start then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError
from storage.record.layout import NO_TIMESTAMP
from storage.segment.index.entries import TIME_ENTRY
from storage.verify.finding import FindingKind
from storage.verify.index_check import IndexCheck, IndexEntry, IndexSlots

if TYPE_CHECKING:
    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.segment.truncation import EarliestTruncation

_NO_SUCH_TIME: Final = "has a timestamp that is not the largest up to any batch"
_WITHOUT_TIMESTAMPS: Final = 0  # the format of batches that have none


class TimeIndexCheck(IndexCheck):
    """Every entry has a timestamp that is the largest up to a batch, and leads to the first batch that has it.

    That of a segment to which nothing more is appended ends with the largest timestamp of all.
    """

    kind = FindingKind.TIME_INDEX_ENTRY
    slot = TIME_ENTRY
    _key_name = "timestamp"
    _largest = NO_TIMESTAMP
    _indexed = NO_TIMESTAMP
    _unknowable = 0

    def add(self, batch: Batch) -> None:
        """Compare with the next batch."""
        if batch.magic == _WITHOUT_TIMESTAMPS:
            self._pass_without_timestamps(batch.last_offset)
            return
        timestamp = batch.max_timestamp
        if timestamp <= self._largest:
            return
        self._largest = timestamp
        while self._next is not None and self._next.key < timestamp:
            self._wrong(self._next, _NO_SUCH_TIME)
            self._step()
        if self._next is not None and self._next.key == timestamp:
            self._judge(self._next, batch)
            self._step()
        if self._aside and (entry := self._aside.get(timestamp)) is not None and self._is_of(entry, batch):
            del self._aside[timestamp]

    def skip(self, first_lost: int, next_good: int | None) -> None:
        """Note offsets whose records, and so their timestamps, do not decode."""
        self._lost.append((first_lost, next_good))

    def finish(self, *, is_closed: bool, is_before_indexes: bool) -> None:
        """Report what is left at the end; `is_before_indexes` if only brokers without time indexes wrote the log."""
        while self._next is not None:
            self._wrong(self._next, _NO_SUCH_TIME)
            self._step()
        self._finish("has a timestamp that is not the largest up to any batch, or is not where that batch is")
        if self._unknowable:
            self._note(f"{self._unknowable} entries have timestamps that their records lost when they were converted")
        if is_closed and not self._lost and self._indexed < self._largest:
            if self.is_empty and is_before_indexes:
                self._note("there are no entries, as the segment was written before Kafka 0.10.1")
                return
            self._report_file(
                self.kind, f"the entries end with timestamp {self._indexed}, and the log has {self._largest}"
            )

    def _pass_without_timestamps(self, last_offset: int) -> None:
        """Accept entries up to this offset that skip no later timestamp; they cannot be compared further."""
        while self._next is not None and self._next.offset <= last_offset and self._next.key > self._largest:
            self._indexed = max(self._indexed, self._next.key)
            self._unknowable += 1
            self._right(self._next)
            self._step()

    def _judge(self, entry: IndexEntry, batch: Batch) -> None:
        self._indexed = max(self._indexed, entry.key)
        if self._is_of(entry, batch):
            self._right(entry)
        else:
            reason = f"does not lead to the first batch with that timestamp, which ends {batch.last_offset}"
            self._wrong(entry, reason)

    def _is_of(self, entry: IndexEntry, batch: Batch) -> bool:
        return entry.offset == batch.last_offset or entry.offset == _offset_of(entry.key, batch)

    def _explains(self, truncation: EarliestTruncation, entry: IndexEntry) -> bool:
        return truncation.explains(entry.offset, timestamp=entry.key)

    def _slots(self, file: ReadableFile) -> IndexSlots:
        return IndexSlots(file, self.slot, may_repeat=frozenset({1}), zeros_may_lead=True)

    def _entry(self, at: int, fields: tuple[int, ...], *, rises: bool) -> IndexEntry:
        timestamp, relative = fields
        return IndexEntry(at, timestamp, self._base_offset + relative, rises, is_possible=timestamp >= 0 <= relative)


def _offset_of(timestamp: int, batch: Batch) -> int | None:
    """Return the offset of the first record in the batch that has the timestamp."""
    try:
        return next((record.offset for record in batch.records() if record.timestamp == timestamp), None)
    except CorruptBatchError:
        return None
