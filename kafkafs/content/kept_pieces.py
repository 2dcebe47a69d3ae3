"""Bytes that were rendered for counting, kept for the read that as a rule follows a `stat`."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY

if TYPE_CHECKING:
    from kafkafs.content.counted_file import CountedFile
    from kafkafs.content.piece import Piece
    from storage.budget import Budget

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024


class KeptPieces:
    """Pieces of the log that was counted last, within a number of bytes; each is given once. Any thread may use it."""

    def __init__(self, limit_bytes: int = KEPT_BYTES_MAX, *, budget: Budget = MEMORY) -> None:
        self._limit_bytes = limit_bytes
        self._kept_bytes = 0
        self._lock = Lock()
        self._owner: object = None
        self._pieces: dict[tuple[CountedFile, int], Piece] = {}
        self._account = budget.account(self.shrink)

    def keep(self, owner: object, counted: CountedFile, at: int, piece: Piece) -> bool:
        """Keep the piece of a file that begins at a position; False if there is no room for it.

        The pieces of another owner are dropped.
        """
        with self._lock:
            if owner is not self._owner:
                self._owner = owner
                self._clear()
            if (counted, at) in self._pieces:
                return True
            if self._kept_bytes + piece.size_bytes > self._limit_bytes or not self._account.keep(piece.size_bytes):
                return False
            self._pieces[counted, at] = piece
            self._kept_bytes += piece.size_bytes
            return True

    def take(self, counted: CountedFile, at: int) -> Piece | None:
        """Remove and return the piece of a file that begins at a position, if it is kept."""
        with self._lock:
            piece = self._pieces.pop((counted, at), None)
            if piece is not None:
                self._give(piece.size_bytes)
            return piece

    def shrink(self, _: int) -> None:
        """Drop all pieces: a reader uses the first ones only if it finds them all."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._pieces.clear()
        self._give(self._kept_bytes)

    def _give(self, size_bytes: int) -> None:
        self._kept_bytes -= size_bytes
        self._account.give(size_bytes)
