"""Bytes that were rendered for counting, kept for the read that as a rule follows a `stat`."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkafs.content.counted_file import CountedFile
    from kafkafs.content.piece import Piece

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024


class KeptPieces:
    """Pieces of the log that was counted last, within a number of bytes; each is given once. Any thread may use it."""

    def __init__(self, limit_bytes: int = KEPT_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes
        self._lock = Lock()
        self._owner: object = None
        self._pieces: dict[tuple[CountedFile, int], Piece] = {}

    def keep(self, owner: object, counted: CountedFile, at: int, piece: Piece) -> bool:
        """Keep the piece of a file that begins at a position; False if there is no room for it.

        The pieces of another owner are dropped.
        """
        with self._lock:
            if owner is not self._owner:
                self._owner = owner
                self._pieces.clear()
                self._left_bytes = self._limit_bytes
            has_room = piece.size_bytes <= self._left_bytes
            if has_room and (counted, at) not in self._pieces:
                self._pieces[counted, at] = piece
                self._left_bytes -= piece.size_bytes
            return has_room

    def take(self, counted: CountedFile, at: int) -> Piece | None:
        """Remove and return the piece of a file that begins at a position, if it is kept."""
        with self._lock:
            piece = self._pieces.pop((counted, at), None)
            if piece is not None:
                self._left_bytes += piece.size_bytes
            return piece
