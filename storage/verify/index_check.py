"""The common part of the checks of offset index and time index: reading the entries, and judging wrong ones.

Entries that a broker of today would not write, but that mislead no reader, are no damage: those of old brokers, and
those that a truncation leaves in the file of an active segment. They are counted in one notice for each file. A missing
entry is not noticed: how many there should be depends on the settings at that time.

A truncation leaves entries at the end of the index, each at or after the place in the log where the truncation may have
been. Any other entry that is wrong is damage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from storage.segment.index.stale_tail import StaleTail
from storage.segment.index.zero_tail import used_slots
from storage.verify.finding import Finding, FindingKind, FindingList, damage, notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from struct import Struct

    from storage.files import ReadableFile
    from storage.segment.truncation import EarliestTruncation

_RUN_SLOTS: Final = 4096
_ASIDE_MAX: Final = 1000
_DOUBTFUL_MAX: Final = 1000
_DESCENDS: Final = "does not lie above the one before it"


class IndexSlot(NamedTuple):
    """A slot of an index file. It `rises` if its fields are above those of the slot before.

    Those that `fit` all rise from one to the next: of two that contradict each other, the one that leaves more of the
    others in order fits.
    """

    position: int
    fields: tuple[int, ...]
    rises: bool
    fits: bool


class IndexSlots:
    """The slots of an index file up to unused ones, read in bounded memory. Iterate over it once.

    The fields of each must be above those of the slot before, or equal for those that `may_repeat`. Slots appended
    after this is made are left out. Where an entry of zeros may be real, as in a time index, the zeros of a file with
    exactly one slot are an entry.
    """

    def __init__(
        self, file: ReadableFile, entry: Struct, *, may_repeat: frozenset[int] = frozenset(), zeros_may_lead: bool
    ) -> None:
        self._file = file
        self._entry = entry
        self._may_repeat = may_repeat
        self.size_bytes = file.size_bytes()
        self.slots = self.size_bytes // entry.size
        self.used = used_slots(file, self.slots, entry.size)
        if self.used == 0 and self.slots == 1 and zeros_may_lead:
            self.used = 1

    @property
    def odd_bytes(self) -> int:
        """The bytes after the last whole entry."""
        return self.size_bytes % self._entry.size

    def __iter__(self) -> Iterator[IndexSlot]:
        kept: tuple[int, ...] | None = None
        raw = self._raw()
        current = next(raw, None)
        rises = True
        is_last_kept = False  # the entry before was kept
        slot = 0
        while current is not None:
            following = next(raw, None)
            fits = rises if is_last_kept else kept is None or self._rises(kept, current)
            # One that is too large would make all after it wrong, so compare it with those as well.
            follows = following is None or self._rises(current, following)
            if fits and following is not None and not follows:
                fits = not (self._is_order_without_first(following) if kept is None else self._rises(kept, following))
            if fits:
                kept = current
            is_last_kept = fits
            yield IndexSlot(slot * self._entry.size, current, rises, fits)
            current, rises = following, follows
            slot += 1

    def _is_order_without_first(self, second: tuple[int, ...]) -> bool:
        """Return True if a third entry rises from the second, which does not rise from the first."""
        third = self._file.read_at(2 * self._entry.size, self._entry.size)
        return self.used > 2 and len(third) == self._entry.size and self._rises(second, self._entry.unpack(third))

    def _rises(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        for at, low in enumerate(before):
            high = after[at]
            if low >= high and not (low == high and at in self._may_repeat):
                return False
        return True

    def _raw(self) -> Iterator[tuple[int, ...]]:
        slot = 0
        while slot < self.used:
            count = min(_RUN_SLOTS, self.used - slot)
            data = self._file.read_at(slot * self._entry.size, count * self._entry.size)
            yield from self._entry.iter_unpack(data[: len(data) - len(data) % self._entry.size])
            if len(data) < count * self._entry.size:
                return  # cut meanwhile
            slot += count


class IndexEntry(NamedTuple):
    """An entry of either index: its position there, the key that it is found by in the log, and its offset."""

    at: int
    key: int  # position or timestamp
    offset: int
    rises: bool  # from the entry before it
    is_possible: bool  # a broker may write such numbers


class IndexCheck(ABC):
    """The check of one index; the log's batches are passed in once, in order.

    Entries that rise are compared with the batches as they come. Some of those that do not rise are set aside until
    their place in the log comes. Entries that point into damage of the log are not judged. With a `truncation`, the
    place where the log may have been truncated, the index is one that its broker has open, or had when it was killed.
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
        self._held = FindingList()  # findings of entries that a truncation may have left
        self._doubtful: list[tuple[IndexEntry, Sequence[str]]] = []  # held entries that may be damage after all
        self._left_at: int | None = None  # position of the first that a truncation may have left
        self._aside: dict[int, IndexEntry] = {}
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
    def _slots(self, file: ReadableFile) -> IndexSlots:
        """Return the slots of the file."""

    @abstractmethod
    def _entry(self, at: int, fields: tuple[int, ...], *, rises: bool) -> IndexEntry:
        """Return the entry in a slot."""

    def _rising(self, slots: IndexSlots) -> Iterator[IndexEntry]:
        """Yield the entries to compare with the batches as they come."""
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

    def _right(self, entry: IndexEntry) -> None:
        """Take an entry that is right, or that an old broker wrote."""
        if self._tail is not None and self._tail.right():
            self._findings.extend(self._held)
            self._held = FindingList()
            self._doubtful.clear()
            self._left_at = None
        if not entry.rises:
            self._report(entry, _DESCENDS)

    def _wrong(self, entry: IndexEntry, reason: str) -> None:
        """Take an entry that is wrong, unless a truncation has left it."""
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
        """Report the held and doubtful entries, and those set aside, for which the log had no place."""
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

    def _may_be_left(self, entry: IndexEntry) -> bool:
        """Return True if a truncation may have left the entry, as far as the log is known."""
        return self._truncation is not None and self._explains(self._truncation, entry)

    @abstractmethod
    def _explains(self, truncation: EarliestTruncation, entry: IndexEntry) -> bool:
        """Return True if the entry is at or after the truncation."""

    def _leave(self, entry: IndexEntry) -> None:
        self._left_at = entry.at if self._left_at is None else min(entry.at, self._left_at)

    def _report(self, entry: IndexEntry, reason: str) -> None:
        """Report damage of an entry that no truncation explains."""
        if not self._points_into_damage(entry):
            self._findings.add(self._damage(entry, reason))

    def _report_file(self, kind: FindingKind, reason: str) -> None:
        self._findings.add(damage(kind, self._name, reason))

    def _note(self, reason: str) -> None:
        self._findings.add(notice(self.kind, self._name, reason))

    def _points_into_damage(self, entry: IndexEntry) -> bool:
        return any(start <= entry.offset and (end is None or entry.offset < end) for start, end in self._lost)

    def _damage(self, entry: IndexEntry, reason: str) -> Finding:
        return damage(
            self.kind,
            self._name,
            f"the entry of offset {entry.offset} and {self._key_name} {entry.key} {reason}",
            position=entry.at,
            end_position=entry.at + self.slot.size,
            offset=entry.offset,
        )
