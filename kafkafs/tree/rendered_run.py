"""Rendered bytes that are made as they are read: at any position, and fast from one end to the other.

How bytes are made, and from which places one can begin to make them, is left to a function that is handed in.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.tree.ahead import go_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

AHEAD_BYTES: Final = 1024 * 1024
"""What is made behind a read that follows on the one before."""
OVERTAKEN_BYTES: Final = 2 * 1024 * 1024
"""How far a read may be ahead of another that the same reader began before it: what lies between them is kept."""


class Chunk(NamedTuple):
    """Some of the bytes, and the position at which they begin."""

    start: int
    data: memoryview

    @property
    def end(self) -> int:
        """The position behind them."""
        return self.start + len(self.data)


class RenderedRun:
    """The bytes that `pieces_from(position)` gives: one piece after another, from one on that begins at or before it.

    An iterator that ends has come to the end, and behind that there may be more for the next one. One that raises has
    come to a place that cannot be read: what lies before it is given, and who reads at it has the error. At most a
    piece, a read and about 3 MiB are held. Any thread may read; pieces are made for one of them at a time. What comes
    behind a read is made by `later`, while that read is on its way.
    """

    def __init__(
        self,
        pieces_from: Callable[[int], Iterator[tuple[int, Buffer]]],
        *,
        later: Callable[[Callable[[], None]], None] = go_ahead,
    ) -> None:
        self._pieces_from = pieces_from
        self._later = later
        self._making = Lock()  # held while pieces are made
        self._chunks: tuple[Chunk, ...] = ()  # without gaps; replaced, never changed
        self._pieces: Iterator[tuple[int, Buffer]] | None = None  # what follows on the last chunk
        self._next_position = 0  # behind the last read
        self._is_going_ahead = False
        self._is_closed = False

    def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes from the position, fewer only at the end or before what cannot be read."""
        end = position + size_bytes
        with self._making:
            chunks = self._chunks
            reach_bytes = 0 if self._pieces is None else OVERTAKEN_BYTES
            if not chunks or not chunks[0].start <= position <= chunks[-1].end + reach_bytes:
                self._restart(())
            elif self._pieces is None and end > chunks[-1].end:
                self._restart(chunks)
            is_sequential = position == self._next_position
            was_begun = self._pieces is not None
            self._make_up_to(position, end)
            if was_begun and self._pieces is None:
                # That came to the end as it was when it began. To the kernel a short read is the file's end, whatever
                # size was told since: it takes what lies behind from those who have mapped it.
                self._make_up_to(position, end)
            found = _cut(self._chunks, position, end)
            self._next_position = position + len(memoryview(found))
        self._let_go()
        if is_sequential and len(memoryview(found)) == size_bytes:
            self._go_ahead()
        return found

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """The same if all of it is made already, and None otherwise."""
        chunks, end = self._chunks, position + size_bytes
        if not chunks or not chunks[0].start <= position or end > chunks[-1].end:
            return None
        is_sequential = position == self._next_position
        self._next_position = end
        if is_sequential:
            self._go_ahead()
        return _cut(chunks, position, end)

    def close(self) -> None:
        """Let go of everything: at once, or as soon as another thread has made its pieces. Later reads keep nothing."""
        self._is_closed = True
        self._let_go()

    def _let_go(self) -> None:
        """Drop the chunks of a closed run, unless another thread makes pieces: that one calls this when it is done."""
        if self._is_closed and self._making.acquire(blocking=False):
            self._restart(())
            self._making.release()

    def _restart(self, chunks: tuple[Chunk, ...]) -> None:
        """Have the next pieces made from another place; an iterator lets go of its files when nobody has it."""
        self._chunks = chunks
        self._pieces = None

    def _make_up_to(self, position: int, end: int) -> None:
        """Make what is asked for, also if what lies before it cannot be made any more."""
        try:
            self._make(position, end)
        except Exception:
            if not self._chunks or self._chunks[-1].end >= position:
                raise
            self._restart(())
            self._make(position, end)

    def _make(self, position: int, end: int) -> None:
        """Make pieces until they reach the end; an error stays where it is if there is anything to give before it."""
        chunks = self._chunks
        reached = chunks[-1].end if chunks else position
        if end <= reached and chunks:
            return
        if self._pieces is None:
            self._pieces = self._pieces_from(reached)
        try:
            for start, data in self._pieces:
                self._keep(Chunk(start, memoryview(data)), position)
                if self._chunks and self._chunks[-1].end >= end:
                    return
            self._pieces = None
        except Exception:
            self._pieces = None
            if not self._chunks or self._chunks[-1].end <= position:
                raise

    def _go_ahead(self) -> None:
        """Have some more made of what is likely to be asked for next, if little of it is there."""
        chunks = self._chunks
        is_due = bool(chunks) and chunks[-1].end < self._next_position + AHEAD_BYTES // 2
        if is_due and self._pieces is not None and not self._is_going_ahead and not self._is_closed:
            self._is_going_ahead = True
            self._later(self._make_ahead)

    def _make_ahead(self) -> None:
        try:
            with self._making:
                position, chunks = self._next_position, self._chunks
                if self._pieces is not None and chunks and position <= chunks[-1].end:
                    self._make(position, position + AHEAD_BYTES)
        finally:
            self._is_going_ahead = False
            self._let_go()

    def _keep(self, chunk: Chunk, position: int) -> None:
        chunks = self._chunks
        if chunks and chunk.start < chunks[-1].end:  # the place where one could begin lies before what was asked for
            chunk = Chunk(chunks[-1].end, chunk.data[chunks[-1].end - chunk.start :])
        kept = [each for each in chunks if each.end > position - OVERTAKEN_BYTES]
        if chunk.data:
            kept.append(chunk)
        self._chunks = tuple(kept)


def _cut(chunks: Sequence[Chunk], position: int, end: int) -> Buffer:
    """What the chunks have between the positions, without a copy if it lies in one of them."""
    parts = [
        chunk.data[max(position - chunk.start, 0) : end - chunk.start]
        for chunk in chunks
        if chunk.start < end and chunk.end > position
    ]
    return parts[0] if len(parts) == 1 else b"".join(parts)
