"""The entries of a segment's offset index and time index against the log's batches, which pass by once, in order.

Brokers before 4.0 added an entry for each append at most, so the offset of an offset index's entry may be the last of
a batch behind the one that it points to; 2.2 and some builds of 3.6 and 3.7 gave the time index the offset of a record
in place of its batch's last one. Both are right. That an entry is missing in between is not seen: how many there should
be is known only to whoever knows the settings that held when each was written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from storage.errors import CorruptBatchError
from storage.record.layout import NO_TIMESTAMP
from storage.segment.finding import FindingKind, damage
from storage.segment.index_entries import IndexEntries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.segment.finding_list import FindingList

_ASIDE_MAX: Final = 1000


class _Entry(NamedTuple):
    """An entry of either index: where in the index it lies, what it is found by in the log, and its offset."""

    at: int
    key: int  # position or timestamp
    offset: int


class IndexCheck(ABC):
    """What the checks of both indexes have in common.

    Entries that rise are compared as the log passes; of those that do not, some are kept aside until their place in
    the log comes. What points into damage of the log is not judged.
    """

    kind: ClassVar[FindingKind]
    slot: ClassVar[Struct]

    def __init__(
        self, file: ReadableFile, base_offset: int, findings: FindingList, *, name: str, may_be_untrimmed: bool
    ) -> None:
        self._base_offset = base_offset
        self._findings = findings
        self._name = name
        self._aside: dict[int, _Entry] = {}
        self._lost: list[tuple[int, int | None]] = []
        slots = self._slots(file)
        if slots.odd_bytes:
            self._report_file(
                FindingKind.INDEX_SIZE, f"the file has {slots.size_bytes} bytes, not a multiple of {self.slot.size}"
            )
        if slots.used < slots.slots and not may_be_untrimmed:
            self._report_file(
                FindingKind.UNTRIMMED_INDEX,
                f"the last {slots.slots - slots.used} of {slots.slots} slots are not used, and a broker takes them for "
                "entries",
            )
        self.is_untrimmed = slots.used < slots.slots
        self._waiting = self._rising(slots)
        self._next = next(self._waiting, None)

    @abstractmethod
    def _slots(self, file: ReadableFile) -> IndexEntries:
        """The slots of the index, as its kind has them."""

    @abstractmethod
    def _entry(self, at: int, fields: tuple[int, ...]) -> _Entry:
        """What the fields of a slot say."""

    def _rising(self, slots: IndexEntries) -> Iterator[_Entry]:
        """The entries to compare as the log passes."""
        for at, fields, rises, fits in slots:
            entry = self._entry(at, fields)
            if not rises:
                self._report(entry, "does not lie above the one before it")
            if fits:
                yield entry
            elif len(self._aside) < _ASIDE_MAX:
                self._aside[entry.key] = entry

    def _step(self) -> None:
        self._next = next(self._waiting, None)

    def _report(self, entry: _Entry, reason: str) -> None:
        if not any(start <= entry.offset and (end is None or entry.offset < end) for start, end in self._lost):
            self._findings.add(
                damage(
                    self.kind,
                    self._name,
                    f"the entry of offset {entry.offset} and {self._key_name} {entry.key} {reason}",
                    position=entry.at,
                    end_position=entry.at + self.slot.size,
                    offset=entry.offset,
                )
            )

    _key_name: ClassVar[str]

    def _report_file(self, kind: FindingKind, reason: str) -> None:
        self._findings.add(damage(kind, self._name, reason))


class OffsetIndexCheck(IndexCheck):
    """Every entry points to the beginning of a batch, and has the last offset of that or of one that follows it."""

    kind = FindingKind.INDEX_ENTRY
    slot = Struct(">ii")  # last offset less the base offset, position
    _key_name = "position"
    _run: _Entry | None = None  # an entry whose batch has passed, but not yet one with its offset

    def add(self, position: int, last_offset: int) -> None:
        """The next batch."""
        while self._next is not None and self._next.key < position:
            self._report(self._next, "does not point to the beginning of a batch")
            self._step()
        if self._run is not None and last_offset >= self._run.offset:
            if last_offset != self._run.offset:
                self._report(self._run, "has an offset with which no batch behind it ends")
            self._run = None
        if self._next is not None and self._next.key == position:
            if self._run is not None:
                self._report(self._run, "has the offset of a batch that a later entry points to")
            self._run = self._next
            if last_offset >= self._next.offset:
                if last_offset != self._next.offset:
                    self._report(self._next, f"points to a batch that ends with offset {last_offset}")
                self._run = None
            self._step()
        if self._aside and (entry := self._aside.get(position)) is not None and entry.offset == last_offset:
            del self._aside[position]

    def skip(self, start: int, end: int) -> None:
        """A range of the log that does not decode."""
        while self._next is not None and self._next.key < end:
            if self._next.key < start:
                self._report(self._next, "does not point to the beginning of a batch")
            self._step()
        self._run = None
        self._aside = {key: entry for key, entry in self._aside.items() if not start <= key < end}

    def finish(self) -> None:
        """The log has ended."""
        if self._run is not None:
            self._report(self._run, "has an offset that the log does not reach")
        while self._next is not None:
            self._report(self._next, "points to no batch of the log")
            self._step()
        for entry in self._aside.values():
            self._report(entry, "does not point to the beginning of a batch that ends so")

    def _slots(self, file: ReadableFile) -> IndexEntries:
        return IndexEntries(file, self.slot, zeros_may_lead=False)

    def _entry(self, at: int, fields: tuple[int, ...]) -> _Entry:
        return _Entry(at, fields[1], self._base_offset + fields[0])


class TimeIndexCheck(IndexCheck):
    """Every entry has a timestamp that is the largest up to a batch, and leads to the first batch that has it.

    That of a segment to which nothing more is appended ends with the largest timestamp of all.
    """

    kind = FindingKind.TIME_INDEX_ENTRY
    slot = Struct(">qi")  # timestamp, offset less the base offset
    _key_name = "timestamp"
    _largest = NO_TIMESTAMP
    _indexed = NO_TIMESTAMP

    def add(self, batch: Batch) -> None:
        """The next batch."""
        timestamp = batch.max_timestamp
        if timestamp <= self._largest:
            return
        self._largest = timestamp
        while self._next is not None and self._next.key < timestamp:
            self._report(self._next, "has a timestamp that is not the largest up to any batch")
            self._step()
        if self._next is not None and self._next.key == timestamp:
            self._judge(self._next, batch)
            self._step()
        if self._aside and (entry := self._aside.pop(timestamp, None)) is not None:
            self._judge(entry, batch)

    def skip(self, first_lost: int, next_good: int | None) -> None:
        """Offsets that do not decode, so that neither do the timestamps of their records."""
        self._lost.append((first_lost, next_good))

    def finish(self, *, is_closed: bool) -> None:
        """The log has ended."""
        while self._next is not None:
            self._report(self._next, "has a timestamp that is not the largest up to any batch")
            self._step()
        for entry in self._aside.values():
            self._report(entry, "has a timestamp that is not the largest up to any batch")
        if is_closed and not self._lost and self._indexed < self._largest:
            self._report_file(
                self.kind, f"the entries end with timestamp {self._indexed}, and the log has {self._largest}"
            )

    def _judge(self, entry: _Entry, batch: Batch) -> None:
        self._indexed = max(self._indexed, entry.key)
        if entry.offset != batch.last_offset and entry.offset != _offset_of(entry.key, batch):
            self._report(entry, f"does not lead to the first batch with that timestamp, which ends {batch.last_offset}")

    def _slots(self, file: ReadableFile) -> IndexEntries:
        return IndexEntries(file, self.slot, may_repeat=frozenset({1}), zeros_may_lead=True)

    def _entry(self, at: int, fields: tuple[int, ...]) -> _Entry:
        return _Entry(at, fields[0], self._base_offset + fields[1])


def _offset_of(timestamp: int, batch: Batch) -> int | None:
    """The offset of the first record in the batch that has the timestamp."""
    try:
        return next((record.offset for record in batch.records() if record.timestamp == timestamp), None)
    except CorruptBatchError:
        return None
