"""Where records went, told to whoever wrote them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.partition.appending import Appended

RECEIPT_BYTES_MAX: Final = 64 * 1024


class Receipts:
    """Lines of the form `first..last`, each given once, oldest first; both offsets are those of records.

    Of what nobody reads the newest lines are kept, up to `RECEIPT_BYTES_MAX`: a writer may go on for ever.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._lines_bytes = 0
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
        if first is None or last is None:
            return
        line = b"%d..%d\n" % (first, last)
        self._lines.append(line)
        self._lines_bytes += len(line)
        while self._lines_bytes > RECEIPT_BYTES_MAX:
            self._lines_bytes -= len(self._lines.popleft())

    def take(self, size_bytes: int) -> bytes:
        """The oldest that has not been given, as much of it as asked for; nothing if all has."""
        taken = self._rest
        while len(taken) < size_bytes and self._lines:
            line = self._lines.popleft()
            self._lines_bytes -= len(line)
            taken += line
        self._rest = taken[size_bytes:]
        return taken[:size_bytes]
