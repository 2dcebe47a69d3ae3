"""What the checks of a segment's offset index and time index have in common.

Of entries that are not what a broker of today would write, those that mislead no reader are no damage: what old
brokers wrote, and what a truncation leaves in the file of an active segment. They are counted, and told in one
notice for each file. That an entry is missing in between is not seen: how many there should be depends on the
settings that held when each was written.

What a truncation left lies at the end of the index, and each of those entries at or after the place in the log where
the truncation may have been; one that does not is damage, wherever it is in the index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from storage.segment.index.stale_tail import StaleTail
from storage.verify.finding import Finding, FindingKind, damage, notice
from storage.verify.finding_list import FindingList

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from struct import Struct

    from storage.files import ReadableFile
    from storage.segment.truncation import EarliestTruncation
    from storage.verify.index_entries import IndexEntries

_ASIDE_MAX: Final = 1000
_DOUBTFUL_MAX: Final = 1000
_DESCENDS: Final = "does not lie above the one before it"


class Entry(NamedTuple):
    """An entry of either index: where in the index it lies, what it is found by in the log, and its offset."""

    at: int
    key: int  # position or timestamp
    offset: int
    rises: bool  # from the entry before it
    is_possible: bool  # no number in it is below the least that a broker writes


class IndexCheck(ABC):
    """The check of one index, against the batches of the log, which pass by once, in order.

    Entries that rise are compared as the log passes; of those that do not, some are kept aside until their place in
    the log comes. What points into damage of the log is not judged. With a `truncation`, where the log may have been
    truncated, the index is one that its broker has open, or had when it was killed.
    """

    kind: ClassVar[FindingKind]
    slot: ClassVar[Struct]
    _key_name: ClassVar[str]

    def __init__(
        self,
        file: ReadableFile,
        base_offset: int,
        findings: FindingList,
        *,
        name: str,
        truncation: EarliestTruncation | None,
    ) -> None:
        self._base_offset = base_offset
        self._findings = findings
        self._name = name
        self._truncation = truncation
        self._held = FindingList()  # of entries that a truncation may have left
        self._doubtful: list[tuple[Entry, Sequence[str]]] = []  # those of them that it may yet not have left
        self._left_at: int | None = None  # the first that it may have left
        self._aside: dict[int, Entry] = {}
        self._lost: list[tuple[int, int | None]] = []
        slots = self._slots(file)
        if slots.odd_bytes:
            self._report_file(
                FindingKind.INDEX_SIZE, f"the file has {slots.size_bytes} bytes, not a multiple of {self.slot.size}"
            )
        if slots.used < slots.slots and truncation is None:
            self._report_file(
                FindingKind.UNTRIMMED_INDEX,
                f"the last {slots.slots - slots.used} of {slots.slots} slots are not used, and a broker takes them for "
                "entries",
            )
        self.is_untrimmed = slots.used < slots.slots
        self._tail = StaleTail() if truncation is not None and self.is_untrimmed else None
        self.is_empty = slots.used == 0
        self._end = slots.used * self.slot.size
        self._waiting = self._rising(slots)
        self._next = next(self._waiting, None)

    @abstractmethod
    def _slots(self, file: ReadableFile) -> IndexEntries:
        """The slots of the index, as its kind has them."""

    @abstractmethod
    def _entry(self, at: int, fields: tuple[int, ...], *, rises: bool) -> Entry:
        """What the fields of a slot say."""

    def _rising(self, slots: IndexEntries) -> Iterator[Entry]:
        """The entries to compare as the log passes."""
        for at, fields, rises, fits in slots:
            entry = self._entry(at, fields, rises=rises)
            if fits and entry.is_possible:
                yield entry
                continue
            if not rises:
                self._wrong(entry, _DESCENDS)
            if len(self._aside) < _ASIDE_MAX:
                self._aside[entry.key] = entry

    def _step(self) -> None:
        self._next = next(self._waiting, None)

    def _right(self, entry: Entry) -> None:
        """The entry is as it should be, or as an old broker wrote it."""
        if self._tail is not None and self._tail.right():
            self._findings.extend(self._held)
            self._held = FindingList()
            self._doubtful.clear()
            self._left_at = None
        if not entry.rises:
            self._report(entry, _DESCENDS)

    def _wrong(self, entry: Entry, reason: str) -> None:
        """The entry is neither; it may yet be one that a truncation has left."""
        if self._points_into_damage(entry):
            return
        reasons = [reason] if entry.rises or reason == _DESCENDS else [_DESCENDS, reason]
        findings = self._findings
        if self._tail is not None and entry.is_possible:
            self._tail.wrong(entry.at)
            findings = self._held
            if self._may_be_left(entry):
                self._leave(entry)
            elif len(self._doubtful) < _DOUBTFUL_MAX:
                self._doubtful.append((entry, reasons))
        for each in reasons:
            findings.add(self._damage(entry, each))

    def _finish(self, reason: str) -> None:
        """The log has ended: tell of what was kept back, and say of what is still aside why it is wrong."""
        begin = None if self._tail is None else self._tail.begin
        for entry, reasons in self._doubtful:
            if self._may_be_left(entry):
                self._leave(entry)
                continue
            self._aside.pop(entry.key, None)
            for each in reasons:
                self._report(entry, each)
        for entry in self._aside.values():
            if begin is None or entry.at < begin or not entry.is_possible or not self._may_be_left(entry):
                self._report(entry, reason)
        if self._left_at is not None:
            self._note(
                f"from byte {self._left_at} to {self._end} there are entries of the log as it was before a truncation; "
                "its broker has forgotten them, and they go when the segment is rolled or closed"
            )

    def _may_be_left(self, entry: Entry) -> bool:
        """Whether the entry may be one that a truncation has left, given as much of the log as has passed."""
        return self._truncation is not None and self._explains(self._truncation, entry)

    @abstractmethod
    def _explains(self, truncation: EarliestTruncation, entry: Entry) -> bool:
        """Whether the entry lies at or after the truncation."""

    def _leave(self, entry: Entry) -> None:
        self._left_at = entry.at if self._left_at is None else min(entry.at, self._left_at)

    def _report(self, entry: Entry, reason: str) -> None:
        """The entry is damaged, also if the entries around it are old ones."""
        if not self._points_into_damage(entry):
            self._findings.add(self._damage(entry, reason))

    def _report_file(self, kind: FindingKind, reason: str) -> None:
        self._findings.add(damage(kind, self._name, reason))

    def _note(self, reason: str) -> None:
        self._findings.add(notice(self.kind, self._name, reason))

    def _points_into_damage(self, entry: Entry) -> bool:
        return any(start <= entry.offset and (end is None or entry.offset < end) for start, end in self._lost)

    def _damage(self, entry: Entry, reason: str) -> Finding:
        return damage(
            self.kind,
            self._name,
            f"the entry of offset {entry.offset} and {self._key_name} {entry.key} {reason}",
            position=entry.at,
            end_position=entry.at + self.slot.size,
            offset=entry.offset,
        )
