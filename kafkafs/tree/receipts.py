"""Receipts: where a writer's records were stored."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.log import Appended


class Receipts:
    """Lines of the form `first..last`, each given once, oldest first; both offsets are those of records.

    Every line is kept until it is read. One takes 16 bytes of memory until then.
    """

    def __init__(self) -> None:
        self._offsets = array("q")  # the first and the last offset of each line, in pairs
        self._given = 0  # how many of these offsets have been given
        self._rest = b""  # of the line that was given in part

    def add(self, appended: Iterable[Appended]) -> None:
        """Write a receipt for what was appended together: a line, or one for each run where earlier batches lie."""
        first = last = None
        for each in appended:
            if last is None or each.first_offset != last + 1:
                self._add_line(first, last)
                first = each.first_offset
            last = each.last_offset
        self._add_line(first, last)

    def _add_line(self, first: int | None, last: int | None) -> None:
        if first is not None and last is not None:
            self._offsets.extend((first, last))

    def take(self, size_bytes: int) -> bytes:
        """Return the oldest receipts that were not returned yet, up to a number of bytes."""
        lines, length = [self._rest], len(self._rest)
        while length < size_bytes and self._given < len(self._offsets):
            line = b"%d..%d\n" % (self._offsets[self._given], self._offsets[self._given + 1])
            self._given += 2
            lines.append(line)
            length += len(line)
        if 2 * self._given > len(self._offsets):  # so that each offset is moved once at most, on the average
            del self._offsets[: self._given]
            self._given = 0
        taken = b"".join(lines)
        self._rest = taken[size_bytes:]
        return taken[:size_bytes]
