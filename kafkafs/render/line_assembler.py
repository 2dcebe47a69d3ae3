"""Lines out of pieces that are cut anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import RecordTooLargeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NEWLINE: Final = b"\n"


class LineAssembler:
    """The lines of what comes piece by piece, each given once its newline is there.

    However the pieces are cut, the lines are the same. Of the line in progress never more is held than the longest
    line allowed. `number` is that of the first line that was last given, counted from 1 over all pieces.
    """

    def __init__(self) -> None:
        self.number = 1
        self._newlines = 0
        self._in_progress = bytearray()
        self._is_dropping = False

    def take(self, piece: Buffer, *, line_bytes_max: int) -> bytes:
        """The lines that this piece completes, each with its newline.

        Raises `RecordTooLargeError`, and has refused the piece, if one of them or the line in progress is longer than
        `line_bytes_max`, its newline not counted.
        """
        block = bytes(piece)
        start = 0
        self.number = self._newlines + 1
        self._newlines += block.count(_NEWLINE)
        if self._is_dropping:
            start = block.find(_NEWLINE) + 1
            if start == 0:
                return b""
            self._is_dropping = False
            self.number += 1
        end = block.rfind(_NEWLINE) + 1
        lines = b""
        if end > start:
            lines = block[start:end]
            if self._in_progress:
                lines = bytes(self._in_progress) + lines
            self._in_progress = bytearray(block[end:])
        else:
            self._in_progress += block[start:]
        if len(self._in_progress) > line_bytes_max or _has_longer_line(lines, line_bytes_max):
            self.refuse()
            raise RecordTooLargeError(f"a line has more than {line_bytes_max} bytes, so its record can fit no batch")
        return lines

    def finish(self) -> bytes:
        """Return the line in progress, which ends here without a newline; empty if there is none, or it was refused."""
        line = bytes(self._in_progress)
        self.number = self._newlines + 1
        self._in_progress.clear()
        self._is_dropping = False
        return line

    def refuse(self) -> None:
        """Forget the line in progress: the rest of it, up to its newline or to `finish`, is dropped when it comes."""
        if self._in_progress:
            self._in_progress.clear()
            self._is_dropping = True


def _has_longer_line(lines: bytes, line_bytes_max: int) -> bool:
    start = 0
    while len(lines) - start > line_bytes_max + 1:
        # If the line at `start` is short enough its newline is in this window, and that of no longer one can be.
        start = lines.rfind(_NEWLINE, start, start + line_bytes_max + 1) + 1
        if start == 0:
            return True
    return False
