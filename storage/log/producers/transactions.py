"""A partition's transactions: those still open, and those whose end is not yet replicated.

They decide how far consumers with read_committed may read. `state` decides what a producer may write.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from storage.segment.index.entries import AbortedTransaction


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction that its marker, at `last_offset`, has ended.

    `last_stable_offset` is the value for its transaction index entry: where the earliest other open transaction begins,
    or the offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool

    def index_entry(self) -> AbortedTransaction | None:
        """Return the transaction's entry for the transaction index; None if it was committed."""
        if not self.is_aborted:
            return None
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class Transactions:
    """The transactions of a partition's log that hold its last stable offset back.

    `first_unstable_offset` is where the earliest of them begins, None if there is none. Other threads may read it while
    one thread changes the transactions.
    """

    def __init__(self) -> None:
        self.first_unstable_offset: int | None = None
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._begun: list[tuple[int, int]] = []  # a heap of first offsets and producers, with some that are not open
        self._unreplicated: dict[int, int] = {}  # first offset -> the marker's

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Begin a transaction of a producer that has none open."""
        self._open[producer_id] = first_offset
        heappush(self._begun, (first_offset, producer_id))
        if self.first_unstable_offset is None or first_offset < self.first_unstable_offset:
            self.first_unstable_offset = first_offset

    def complete(self, producer_id: int, marker_offset: int, *, is_aborted: bool) -> CompletedTransaction:
        """End the producer's open transaction by its marker. It stays unstable until the marker is replicated."""
        first_offset = self._open.pop(producer_id)
        earliest = self._earliest_open()
        self._unreplicated[first_offset] = marker_offset
        return CompletedTransaction(
            producer_id, first_offset, marker_offset, marker_offset + 1 if earliest is None else earliest, is_aborted
        )

    def on_high_watermark(self, offset: int) -> None:
        """Remove the completed transactions whose markers are before this offset."""
        if self._unreplicated:
            self._unreplicated = {first: marker for first, marker in self._unreplicated.items() if marker >= offset}
            self._update()

    def clear(self) -> None:
        """Remove all of them."""
        self._open.clear()
        self._begun.clear()
        self._unreplicated.clear()
        self._update()

    def _update(self) -> None:
        earliest = self._earliest_open()
        self.first_unstable_offset = min([*self._unreplicated, *([] if earliest is None else [earliest])], default=None)

    def _earliest_open(self) -> int | None:
        """Return where the earliest open transaction begins; a million may be open."""
        begun = self._begun
        while begun and self._open.get(begun[0][1]) != begun[0][0]:
            heappop(begun)
        return begun[0][0] if begun else None
