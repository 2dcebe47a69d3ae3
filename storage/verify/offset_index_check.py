"""The entries of a segment's offset index compared with the log's batches.

Entries of brokers of any version are right:

- Since 2.0 an entry has the last offset of one append, and the position of its first batch. Before 4.0 an append could
  have several batches, so the offset may be the last of a batch after the one that the entry points to.
- Before 2.0 an entry had the first offset of its batch. That misleads no reader: the search for this offset or a later
  one begins at that batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.segment.index.entries import OFFSET_ENTRY
from storage.verify.finding import FindingKind
from storage.verify.index_check import IndexCheck, IndexEntry, IndexSlots

if TYPE_CHECKING:
    from storage.files import ReadableFile
    from storage.segment.truncation import EarliestTruncation


class OffsetIndexCheck(IndexCheck):
    """Every entry points to the beginning of a batch, and has its first offset, its last, or that of a later one."""

    kind = FindingKind.INDEX_ENTRY
    slot = OFFSET_ENTRY
    _key_name = "position"
    _run: IndexEntry | None = None  # an entry whose batch has come, but not yet one with its offset
    _first_offsets = 0

    def add(self, position: int, first_offset: int, last_offset: int) -> None:
        """Compare with the next batch."""
        while self._next is not None and self._next.key < position:
            self._wrong(self._next, "does not point to the beginning of a batch")
            self._step()
        if self._run is not None and last_offset >= self._run.offset:
            self._end_run(last_offset)
        if self._next is not None and self._next.key == position:
            if self._run is not None:
                self._wrong(self._run, "has the offset of a batch that a later entry points to")
            self._run, entry = None, self._next
            if last_offset < entry.offset:
                self._run = entry
            elif entry.offset == last_offset:
                self._right(entry)
            elif entry.offset == first_offset:
                self._first_offsets += 1
                self._right(entry)
            else:
                self._wrong(entry, f"points to a batch that ends with offset {last_offset}")
            self._step()
        if self._aside and (entry_aside := self._aside.get(position)) is not None:
            self._judge_aside(entry_aside, first_offset, last_offset)

    def skip(self, start: int, end: int) -> None:
        """Pass over bytes of the log that do not decode."""
        while self._next is not None and self._next.key < end:
            if self._next.key < start:
                self._wrong(self._next, "does not point to the beginning of a batch")
            self._step()
        self._run = None
        self._aside = {key: entry for key, entry in self._aside.items() if not start <= key < end}

    def finish(self) -> None:
        """Report what is left at the end of the log."""
        if self._run is not None:
            self._wrong(self._run, "has an offset that the log does not reach")
        while self._next is not None:
            self._wrong(self._next, "points to no batch of the log")
            self._step()
        self._finish("does not point to the beginning of a batch that ends so")
        if self._first_offsets:
            self._note(f"{self._first_offsets} entries have the first offsets of their batches, as before Kafka 2.0")

    def _end_run(self, last_offset: int) -> None:
        assert self._run is not None
        entry, self._run = self._run, None
        if last_offset == entry.offset:
            self._right(entry)
        else:
            self._wrong(entry, "has an offset with which no later batch ends")

    def _judge_aside(self, entry: IndexEntry, first_offset: int, last_offset: int) -> None:
        if entry.offset in (first_offset, last_offset):
            del self._aside[entry.key]

    def _explains(self, truncation: EarliestTruncation, entry: IndexEntry) -> bool:
        return truncation.explains(entry.offset, position=entry.key)

    def _slots(self, file: ReadableFile) -> IndexSlots:
        return IndexSlots(file, self.slot, zeros_may_lead=False)

    def _entry(self, at: int, fields: tuple[int, ...], *, rises: bool) -> IndexEntry:
        relative, position = fields
        return IndexEntry(
            at, position, self._base_offset + relative, rises, is_possible=relative >= 0 and position >= 0
        )
