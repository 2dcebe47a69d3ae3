"""A piece of a log's file: the rendered bytes of some batches."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from storage.errors import CorruptBatchError

UNSETTLED: Final = -1
"""The position after a piece that may be replaced once the file has grown."""

PART: Final = -2
"""The position after a piece with some of a batch's bytes, which others follow."""

UNKNOWN_OFFSET: Final = -1

LARGE_PIECE_BYTES: Final = 1024 * 1024
"""A piece of this size is not joined with others: other threads wait while bytes are copied."""
_GATHERED_BYTES: Final = 128 * 1024
GATHERED_S_MAX: Final = 0.25
"""How long a piece that was made waits for others, which may be slow to make."""


class Piece(NamedTuple):
    """The rendered bytes of some batches of a file.

    `position` is where the next batches begin, and `last_batch` where its last one does, -1 if that is unknown. A
    damaged piece has a reason and no bytes. `first_offset` is the base offset of the first batch if that is known.

    A batch with many bytes has several pieces. In the last one `size_bytes` counts all of them, and `data` is the rest.
    """

    position: int
    last_batch: int
    size_bytes: int
    data: Buffer
    damage: CorruptBatchError | None = None
    first_offset: int = UNKNOWN_OFFSET

    @property
    def is_apart(self) -> bool:
        """True if it must not be joined with the pieces beside it."""
        is_of_several = self.position == PART or len(memoryview(self.data)) != self.size_bytes
        is_large = self.size_bytes >= LARGE_PIECE_BYTES
        return is_of_several or is_large or self.damage is not None or self.position == UNSETTLED


def gathered(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Join small pieces. Large, damaged and unsettled ones, and several pieces of one batch, stay by themselves."""
    held: list[Piece] = []
    size_bytes, end_s = 0, 0.0
    for piece in pieces:
        is_full = size_bytes >= _GATHERED_BYTES or monotonic() > end_s
        if held and (is_full or piece.is_apart or held[-1].is_apart):
            yield _as_one(held)
            held, size_bytes = [], 0
        if not held:
            end_s = monotonic() + GATHERED_S_MAX
        held.append(piece)
        size_bytes += piece.size_bytes
    if held:
        yield _as_one(held)


def _as_one(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    position, last_batch, *_ = pieces[-1]
    data = b"".join([piece.data for piece in pieces])
    return Piece(position, last_batch, len(data), data, first_offset=pieces[0].first_offset)
