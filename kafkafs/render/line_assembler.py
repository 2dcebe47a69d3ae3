"""Lines out of pieces that are cut anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.render.unfinished import Unfinished
from storage.errors import RecordTooLargeError, StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NEWLINE: Final = b"\n"


class Lines(NamedTuple):
    """Lines, each with its newline, as they came: the first one's bytes from earlier pieces, and the rest uncopied."""

    begun: Buffer = b""
    rest: Buffer = b""

    def joined(self) -> bytes:
        """Return all bytes in one piece."""
        return b"".join(self)

    def __bool__(self) -> bool:
        return bool(self.rest)


class LineAssembler:
    """The lines of what comes piece by piece, each given once its newline is there.

    However the pieces are cut, the lines are the same. Of the line in progress never more is held than the longest
    line allowed. `number` is that of the first line that was last given, counted from 1 over all pieces, if the caller
    wants lines to be counted.
    """

    def __init__(self, *, is_counting: bool = False) -> None:
        self.number = 1
        self._is_counting = is_counting
        self._newlines = 0
        self._in_progress = Unfinished()
        self._is_dropping = False

    def take(self, piece: Buffer, *, line_bytes_max: int) -> Lines:
        """The lines that this piece completes.

        Raises `RecordTooLargeError`, and has refused the piece, if one of them or the line in progress is longer than
        `line_bytes_max`, its newline not counted, or than `Unfinished` takes; `MemoryBudgetError` as that does.
        """
        block = bytes(piece)
        start = 0
        if self._is_counting:
            self.number = self._newlines + 1
            self._newlines += block.count(_NEWLINE)
        if self._is_dropping:
            start = block.find(_NEWLINE) + 1
            if start == 0:
                return Lines()
            self._is_dropping = False
            self.number += 1
        end = block.rfind(_NEWLINE) + 1
        try:
            return self._taken(block, start, max(start, end), line_bytes_max)
        except StorageError:
            self._in_progress.clear()
            self._is_dropping = end < len(block)
            raise

    def _taken(self, block: bytes, start: int, end: int, line_bytes_max: int) -> Lines:
        """Return the lines of the block from start to end, and begin the next one with what follows them."""
        begun_bytes = len(self._in_progress)
        rest_bytes = len(block) - end + (begun_bytes if end == start else 0)
        if rest_bytes > line_bytes_max or _has_longer_line(block, start, end, begun_bytes, line_bytes_max):
            raise RecordTooLargeError(f"a line has more than {line_bytes_max} bytes, so its record can fit no batch")
        lines = Lines()
        if end > start:
            begun = self._in_progress.take() if begun_bytes else b""
            lines = Lines(begun, block if end - start == len(block) else memoryview(block)[start:end])
        if end < len(block):
            self._in_progress.add(block[end:] if end else block)
        return lines

    def finish(self) -> Lines:
        """Return the line in progress, which ends here without a newline; none if there is none, or it was refused."""
        line = self._in_progress.take()
        self.number = self._newlines + 1
        self._is_dropping = False
        return Lines(rest=line)

    def refuse(self) -> None:
        """Forget the line in progress: the rest of it, up to its newline or to `finish`, is dropped when it comes."""
        if self._in_progress:
            self._in_progress.clear()
            self._is_dropping = True


def _has_longer_line(block: bytes, start: int, end: int, begun_bytes: int, line_bytes_max: int) -> bool:
    """Return True if a line from start to end is too long; the first one began so many bytes before the start."""
    line_start = start - (begun_bytes if end > start else 0)
    while end - line_start > line_bytes_max + 1:
        # If this line is short enough its newline is in this window, and that of no longer one can be.
        window_end = max(line_start + line_bytes_max + 1, start)
        line_start = block.rfind(_NEWLINE, max(line_start, start), window_end) + 1
        if line_start == 0:
            return True
    return False
