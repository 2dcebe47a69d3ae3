"""Rendered bytes that are made as they are read: at any position, and fast in sequence.

A function that the caller gives makes the bytes, and decides at which positions it can begin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.descriptor_memory import KEPT
from kafkafs.content.patience import Patience
from kafkafs.tree.ahead import go_ahead
from storage.budget import MEMORY
from storage.record import UNLEASED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from kafkafs.content.descriptor_memory import KeptMemory

AHEAD_BYTES: Final = 1024 * 1024
"""How many bytes are made ahead of a sequential read."""
AHEAD_S_MAX: Final = 0.5
"""How long they are made: a small batch may take long, and the reader may stop."""
OVERTAKEN_BYTES: Final = 2 * 1024 * 1024
"""How far a read may overtake an earlier one of the same reader: the bytes between them are kept."""
_WAIT_S: Final = 0.25
"""How long a read waits for another one before it looks whether it is still wanted."""
_MAKING_BYTES: Final = 128 * 1024  # about as much is held by what makes the next pieces


class Chunk(NamedTuple):
    """Some of the bytes, and the position at which they begin."""

    start: int
    data: memoryview

    @property
    def end(self) -> int:
        """Return the position after them."""
        return self.start + len(self.data)


class RunReading(ABC):
    """An open file whose bytes are made as they are read, which may take long: `_rendered` makes them."""

    _rendered: RenderedRun

    @abstractmethod
    def size_bytes(self) -> int | None:
        """Return the exact size now, None while it is unknown; once it is closed, the last known one."""

    def read(self, position: int, size_bytes: int, patience: Patience | None = None) -> Buffer:
        """Return the bytes from the position, fewer only at the end, or if the patience is over before the others.

        Raises what checking the patience raises; the next read goes on from there.
        """
        return self._rendered.read(position, size_bytes, patience)

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if it was made already, and otherwise None."""
        return self._rendered.read_soon(position, size_bytes)

    def close(self) -> None:
        """Release the bytes."""
        self._rendered.close()

    def reached(self) -> int | None:
        """Return the offset up to which a read has come, None where that is unknown. Any thread may ask."""
        return None


class RenderedRun:
    """The bytes that `pieces_from(position)` gives: one piece after another, from one on that begins at or before it.

    An iterator that ends has reached the end; the next one may find more after it. One that raises has reached an
    unreadable place: the bytes before it are returned, and a read at it raises the error. At most a piece, a read and
    about 3 MiB are held, and nothing once others keep more together than they may. Any thread may read; pieces are made
    for one of them at a time. `later` makes what follows a read while the reply is on its way.
    """

    def __init__(
        self,
        pieces_from: Callable[[int], Iterator[tuple[int, Buffer]]],
        *,
        later: Callable[[Callable[[], None]], None] = go_ahead,
        kept: KeptMemory = KEPT,
    ) -> None:
        self._pieces_from = pieces_from
        self._later = later
        self._making = Lock()  # held while pieces are made
        self._chunks: tuple[Chunk, ...] = ()  # without gaps; replaced, never changed
        self._pieces: Iterator[tuple[int, Buffer]] | None = None  # what follows the last chunk
        self._next_position = 0  # after the last read
        self._awaited_position = -1  # that of a read that was interrupted: the pieces were made for it
        self._is_going_ahead = False
        self._is_closed = False
        self._account = MEMORY.account(self._shrink)
        self._kept = kept

    def read(self, position: int, size_bytes: int, patience: Patience | None = None) -> Buffer:
        """The bytes from the position, fewer only at the end or before what cannot be read.

        With a limited patience they are fewer too, but not none, where the others take longer to make.
        """
        end = position + size_bytes
        with self._made_by_this(patience):
            chunks = self._chunks
            reach_bytes = 0 if self._pieces is None else OVERTAKEN_BYTES
            reach = (chunks[0].start, chunks[-1].end + reach_bytes) if chunks else (self._awaited_position,) * 2
            self._awaited_position = -1
            if not reach[0] <= position <= reach[1]:
                self._restart(())
            elif chunks and self._pieces is None and end > chunks[-1].end:
                self._restart(chunks)
            is_sequential = position == self._next_position
            was_begun = self._pieces is not None
            try:
                self._make_up_to(position, end, patience)
                if was_begun and self._pieces is None:
                    # This reached the end as it was at the beginning. To the kernel a short read is the file's end,
                    # even if `stat` told a larger size since: processes that have mapped it lose what follows.
                    self._make_up_to(position, end, patience)
            finally:
                self._tell_kept()
            found = _cut(self._chunks, position, end)
            self._next_position = position + len(memoryview(found))
        self._let_go()
        if is_sequential and len(memoryview(found)) == size_bytes:
            self._go_ahead()
        return found

    @contextmanager
    def _made_by_this(self, patience: Patience | None) -> Iterator[None]:
        """Have the pieces made by this thread in the block. While another one makes them, the patience is checked."""
        if patience is None:
            self._making.acquire()
        else:
            patience.check()
            while not self._making.acquire(timeout=_WAIT_S):
                patience.check()
        try:
            yield
        finally:
            self._making.release()

    def read_soon(self, position: int, size_bytes: int) -> Buffer | None:
        """Return the same if all of it is made already, and otherwise None."""
        chunks, end = self._chunks, position + size_bytes
        if not chunks or not chunks[0].start <= position or end > chunks[-1].end:
            return None
        is_sequential = position == self._next_position
        self._next_position = end
        self._kept.used(self)
        if is_sequential:
            self._go_ahead()
        return _cut(chunks, position, end)

    def close(self) -> None:
        """Release everything, at once or as soon as another thread has made its pieces. Later reads keep nothing."""
        self._is_closed = True
        self._let_go()

    def _let_go(self) -> None:
        """Drop the chunks of a closed run, unless another thread makes pieces, which calls this when it is done."""
        if self._is_closed:
            self.drop_kept()

    def drop_kept(self) -> None:
        """Drop everything, unless another thread makes pieces; the next read makes it again."""
        if self._making.acquire(blocking=False):
            try:
                self._restart(())
                self._tell_kept()
            finally:
                self._making.release()

    def _tell_kept(self) -> None:
        """Tell how much is kept, but for large pieces, which are leased."""
        size_bytes = sum(len(chunk.data) for chunk in self._chunks if len(chunk.data) <= UNLEASED_BYTES_MAX)
        self._kept.keep(self, size_bytes + (0 if self._pieces is None else _MAKING_BYTES))

    def _shrink(self, _: int) -> None:
        """Drop large pieces, and the batch from which the next ones come; the next read makes them again."""
        if self._making.acquire(blocking=False):
            if any(len(chunk.data) > UNLEASED_BYTES_MAX for chunk in self._chunks):
                self._chunks = ()
            self._pieces = None
            self._tell_kept()
            self._making.release()

    def _restart(self, chunks: tuple[Chunk, ...]) -> None:
        """Make the next pieces from another place; the old iterator closes its files when it is collected."""
        self._chunks = chunks
        self._pieces = None

    def _make_up_to(self, position: int, end: int, patience: Patience | None) -> None:
        """Make the requested bytes, even if those before them cannot be made any more."""
        try:
            self._make(position, end, patience)
        except InterruptedError:
            raise
        except Exception:
            if not self._chunks or self._chunks[-1].end >= position:
                raise
            self._restart(())
            self._make(position, end, patience)

    def _make(self, position: int, end: int, patience: Patience | None = None) -> None:
        """Make pieces up to `end`. An error is raised only if there are no bytes before it."""
        chunks = self._chunks
        reached = chunks[-1].end if chunks else position
        if end <= reached and chunks:
            return
        self._chunks = tuple(_without_memory_before(chunk, position) for chunk in chunks)
        if self._pieces is None:
            self._pieces = self._pieces_from(reached)
        try:
            for start, data in self._pieces:
                self._keep(Chunk(start, memoryview(data)), position)
                made_to = self._chunks[-1].end if self._chunks else position
                if made_to >= end or (made_to > position and patience is not None and patience.is_over):
                    return
                if patience is not None:
                    patience.check()
            self._pieces = None
        except InterruptedError:
            self._awaited_position = position
            raise
        except Exception:
            self._pieces = None
            if not self._chunks or self._chunks[-1].end <= position:
                raise

    def _go_ahead(self) -> None:
        """Make the next bytes ahead if few of them are left."""
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
                    try:
                        with suppress(InterruptedError):
                            self._make(position, position + AHEAD_BYTES, _AheadPatience(lambda: self._is_closed))
                    finally:
                        self._tell_kept()
        finally:
            self._is_going_ahead = False
            self._let_go()

    def _keep(self, chunk: Chunk, position: int) -> None:
        chunks = self._chunks
        if chunks and chunk.start < chunks[-1].end:  # the piece began before the requested position
            chunk = Chunk(chunks[-1].end, chunk.data[chunks[-1].end - chunk.start :])
        kept = [each for each in chunks if each.end > position - OVERTAKEN_BYTES]
        if chunk.data:
            kept.append(chunk)
        self._chunks = tuple(kept)


class _AheadPatience(Patience):
    """The patience of what is made ahead: a reader who comes meanwhile has to wait for it."""

    def __init__(self, is_closed: Callable[[], bool]) -> None:
        super().__init__(AHEAD_S_MAX)
        self._is_closed = is_closed

    def check(self) -> None:
        """Raise an error if it takes long, or has no reader any more."""
        if self.is_over or self._is_closed():
            raise InterruptedError


def _without_memory_before(chunk: Chunk, position: int) -> Chunk:
    """Return the chunk, or a copy of its last bytes if it is large and most of it was read."""
    start = position - OVERTAKEN_BYTES
    if len(chunk.data) <= UNLEASED_BYTES_MAX or chunk.end - start > UNLEASED_BYTES_MAX:
        return chunk
    return Chunk(start, memoryview(bytes(chunk.data[start - chunk.start :])))


def _cut(chunks: Sequence[Chunk], position: int, end: int) -> Buffer:
    """Return the chunks' bytes between the positions, without a copy if one chunk has them."""
    parts = [
        chunk.data[max(position - chunk.start, 0) : end - chunk.start]
        for chunk in chunks
        if chunk.start < end and chunk.end > position
    ]
    return parts[0] if len(parts) == 1 else b"".join(parts)
