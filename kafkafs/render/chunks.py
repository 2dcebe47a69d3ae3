"""Many small pieces of output as few larger ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES: Final = 256 * 1024


def chunks(pieces: Iterable[bytes | None], *, end: bytes = b"") -> Iterator[bytes]:
    """The pieces in order, each with `end` after it; None counts as empty.

    At most about `CHUNK_BYTES` and the piece that exceeds them are held, and no chunk is empty.
    """
    held: list[bytes] = []
    room_bytes = CHUNK_BYTES
    for piece in pieces:
        if piece is None:
            piece = b""  # noqa: PLW2901 -- in the hottest loop here
        held.append(piece)
        room_bytes -= len(piece) + 1  # an empty piece takes room too
        if room_bytes <= 0:
            if chunk := _joined(held, end):
                yield chunk
            held = []
            room_bytes = CHUNK_BYTES
    if chunk := _joined(held, end):
        yield chunk


def _joined(held: list[bytes], end: bytes) -> bytes:
    if end and held:
        held.append(b"")
    return end.join(held)
