"""Bytes of a rendered log that are kept after their records are gone, because the kernel reads whole pages.

A reader that waits at the end needs none of the removed records before it, but the kernel asks for the whole page.
"""

from __future__ import annotations

from mmap import PAGESIZE
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

EDGE_BYTES: Final = 16 * 1024
_THRESHOLDS_MAX: Final = 64


class Kept(NamedTuple):
    """Some bytes of a rendered log, and the position of the first of them."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """Return the position after them."""
        return self.start + len(self.data)


class Edges:
    """The last bytes that were made, and a page's worth of those before each place where another file begins."""

    def __init__(self) -> None:
        self._edge = Kept(0, b"")  # replaced, never changed
        self._thresholds: dict[int, Kept] = {}

    @property
    def end(self) -> int:
        """The position after the last bytes that were made."""
        return self._edge.end

    def remember(self, position: int, data: Buffer) -> None:
        """Keep the last of the bytes that were made, which begin at the position, if they are the furthest so far."""
        view, edge = memoryview(data), self._edge
        if position + len(view) <= edge.end:
            return
        last = bytes(view[-EDGE_BYTES:])
        start = position + len(view) - len(last)
        if edge.start < start <= edge.end:
            last = (edge.data[: start - edge.start] + last)[-EDGE_BYTES:]
            start = position + len(view) - len(last)
        self._edge = Kept(start, last)

    def part_begins(self, position: int) -> None:
        """Keep the bytes before the position in its page, if they are known."""
        edge, start = self._edge, position // PAGESIZE * PAGESIZE
        if position not in self._thresholds and edge.start <= start < position <= edge.end:
            self._thresholds[position] = Kept(start, edge.data[start - edge.start : position - edge.start])
            if len(self._thresholds) > _THRESHOLDS_MAX:
                del self._thresholds[min(self._thresholds)]

    def before_part(self, position: int) -> bytes:
        """The bytes from the position, if a page begins there, up to where a file begins in that page."""
        if position % PAGESIZE:
            return b""
        kept = (each.data for each in tuple(self._thresholds.values()) if each.start == position)
        return max(kept, key=len, default=b"")
