"""The differences between an index and its log, kept for a report at the end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT: Final = 100_000


class Mismatches:
    """Pairs of what an index says and what it should say, for one kind of mismatch; of very many, the last are kept."""

    def __init__(self, heading: str, row: str, *, last_first: bool = False) -> None:
        self._heading = heading
        self._row = row
        self._last_first = last_first
        self._total = 0
        self._kept: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def add(self, said: int, found: int) -> None:
        """Take one more."""
        self._total += 1
        self._kept.append((said, found))

    def report(self) -> Iterator[str]:
        """Yield what the real tool prints of them on standard error; empty if there are none."""
        if self._total:
            yield self._heading
        for said, found in reversed(self._kept) if self._last_first else self._kept:
            yield self._row.format(said, found)
        if self._total > len(self._kept):
            yield f"  and {self._total - len(self._kept)} more before these"
