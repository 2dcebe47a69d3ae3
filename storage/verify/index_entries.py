"""The entries of an index file as they lie there, for those who check them: in bounded memory, none taken on trust.

An index that others use gives what can be used of it; this gives everything up to the zeros of slots that nobody has
written to yet, and says where one entry does not fit between its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.segment.index.zero_tail import used_slots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from struct import Struct

    from storage.files import ReadableFile

_RUN_SLOTS: Final = 4096


class IndexEntry(NamedTuple):
    """An entry's fields, and whether they rise from the entry before.

    Those that `fit` all rise from one to the next: of two that contradict each other, it is the one that leaves more of
    the others in order.
    """

    position: int
    fields: tuple[int, ...]
    rises: bool
    fits: bool


class IndexEntries:
    """The entries of a file, whose fields must all rise from one entry to the next, but those that `may_repeat`.

    Iterate over it once. The file's end is taken when this is made. Where entries of zeros may be real, as in a time
    index, a file of exactly one slot is taken at its word.
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
        """How many bytes there are beyond whole entries."""
        return self.size_bytes % self._entry.size

    def __iter__(self) -> Iterator[IndexEntry]:
        kept: tuple[int, ...] | None = None
        raw = self._raw()
        current = next(raw, None)
        rises = True
        is_last_kept = False  # whether the entry before was kept
        slot = 0
        while current is not None:
            following = next(raw, None)
            fits = rises if is_last_kept else kept is None or self._rises(kept, current)
            # One that is too large would put all behind it in the wrong, so it is measured by those as well.
            follows = following is None or self._rises(current, following)
            if fits and following is not None and not follows:
                fits = not (self._is_order_without_first(following) if kept is None else self._rises(kept, following))
            if fits:
                kept = current
            is_last_kept = fits
            yield IndexEntry(slot * self._entry.size, current, rises, fits)
            current, rises = following, follows
            slot += 1

    def _is_order_without_first(self, second: tuple[int, ...]) -> bool:
        """Whether the second entry, which does not rise from the first, has a third that rises from it."""
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
