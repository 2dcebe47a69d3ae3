"""Many small pieces of output as few larger ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.record import LeasedBuffer

CHUNK_BYTES: Final = 256 * 1024


def chunks(pieces: Iterable[bytes | LeasedBuffer | None], *, end: bytes = b"") -> Iterator[bytes | LeasedBuffer]:
    """The pieces in order, each with `end` after it; None counts as empty.

    At most about `CHUNK_BYTES` are held, and no chunk is empty. A piece that is larger is a chunk of its own and not
    copied. Where making a piece fails, those before it come first.
    """
    held: list[bytes | LeasedBuffer] = []
    room_bytes = CHUNK_BYTES
    failure: Exception | None = None
    try:
        for piece in pieces:
            if piece is None:
                piece = b""  # noqa: PLW2901 -- in the hottest loop here
            room_bytes -= len(piece) + 1  # an empty piece takes room too
            if room_bytes > 0:
                held.append(piece)
                continue
            if is_large := len(piece) >= CHUNK_BYTES:
                if chunk := _joined(held, end):
                    yield chunk
                yield piece
            else:
                held.append(piece)
                if chunk := _joined(held, end):
                    yield chunk
            held = [b""] if is_large and end else []
            room_bytes = CHUNK_BYTES
    except Exception as error:  # noqa: BLE001 -- it is raised once what came before it is given
        failure = error
    if chunk := _joined(held, end):
        yield chunk
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # or the error and this frame would keep each other, and what was rendered


def _joined(held: list[bytes | LeasedBuffer], end: bytes) -> bytes:
    if end and held:
        held.append(b"")
    return end.join(held)
