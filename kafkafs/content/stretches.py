"""Stretches of a log rendered in their order, several at a time on all cores.

The first stretch is one batch, so that a reader of one batch waits for no other. Each may be twice as long as the one
before it, up to half a megabyte of the log.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkafs.content.piece import Piece
from storage.budget import MEMORY, MustWaitError
from storage.errors import CorruptBatchError, DecompressedTooLargeError, forget_frames
from storage.record import CODEC_MASK, Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from kafkafs.render.batch_lines import BatchLines, Visible
    from storage.budget import Budget
    from storage.record import Batch

    Begun: TypeAlias = "Future[_Rendered]"

_THREADS_MAX: Final = 4
_THREADS: Final = min(os.cpu_count() or 1, _THREADS_MAX)
_POOL: Final = ThreadPoolExecutor(_THREADS, "batches", initializer=MEMORY.never_wait_here)
STRETCH_BYTES_MAX: Final = 512 * 1024
_APART_BYTES_MIN: Final = 64 * 1024
"""The shortest stretch for which the handover to another thread pays."""
_QUICK_CODECS: Final = frozenset({Codec.SNAPPY, Codec.LZ4})
_QUICK_BYTES_MAX: Final = 64 * 1024
"""The largest batch of a quick codec of which several threads are slower than one: they hand Python's lock over."""
_AHEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""How many rendered bytes of one stretch are made ahead of their reader."""
_AHEAD_S_MAX: Final = 0.25
"""How long a stretch is rendered ahead of its reader: a small batch may hold many bytes, and the reader may stop."""
_TOO_LARGE_MAX: Final = 1000
"""How many batches of a file are known to be too large."""


class Stretch(Protocol):
    """Batches that lie one after another in one buffer, and where they begin and end in the log."""

    @property
    def walk(self) -> Iterable[Batch]:
        """The batches, once."""

    @property
    def start(self) -> int:
        """The position of the first one."""

    @property
    def end(self) -> int:
        """The position after the last one."""

    def move_to(self, position: int) -> None:
        """Continue the walk at a later position at which a batch begins, or before it."""


class DamagedBatchFound(Exception):  # noqa: N818 -- no error for callers: it ends the stretches before the batch
    """The batch that comes next is damaged."""

    def __init__(self, batch: Batch, error: CorruptBatchError) -> None:
        super().__init__(batch, error)
        self.batch = batch
        self.error = error


class TooLargeBatches:
    """The batches of a file that take more memory than one is given, which takes long to find out.

    Any thread may use it. It knows a number of them at the most.
    """

    __slots__ = ("_errors",)

    def __init__(self) -> None:
        self._errors: dict[tuple[int, ...], DecompressedTooLargeError] = {}

    def error_of(self, batch: Batch, *, only_sizes: bool) -> DecompressedTooLargeError | None:
        """Return why the batch cannot be rendered, if that is known."""
        return self._errors.get(_identity(batch, only_sizes=only_sizes)) if self._errors else None

    def add(self, batch: Batch, error: DecompressedTooLargeError, *, only_sizes: bool) -> None:
        """Remember why the batch cannot be rendered, or measured."""
        if len(self._errors) < _TOO_LARGE_MAX:
            self._errors[_identity(batch, only_sizes=only_sizes)] = error


class EndReached(Exception):  # noqa: N818 -- likewise
    """The batch that comes next lies beyond the reader's end."""


class _Rendered(NamedTuple):
    """The first pieces of a stretch, and the others, which are made when they are taken."""

    made: list[Piece]
    others: Iterable[Piece]
    end: DamagedBatchFound | EndReached | None


class RenderedStretches:
    """Renders the batches that a reader sees as pieces of about a megabyte at most.

    A batch at or beyond the reader's end is `EndReached`; to a reader `to_tail`, up to the log's very end, it is
    damage, since nothing belongs there.
    """

    def __init__(
        self,
        lines: BatchLines,
        visible: Visible,
        *,
        only_sizes: bool,
        to_tail: bool,
        too_large: TooLargeBatches | None = None,
        budget: Budget = MEMORY,
    ) -> None:
        self._too_large = too_large or TooLargeBatches()
        self._budget = budget
        self._lines = lines
        self._visible = visible
        self._only_sizes = only_sizes
        self._to_tail = to_tail
        self._is_quick = False  # whether that is so of the batches that were rendered last

    def of(self, stretches: Iterable[Stretch]) -> Iterator[Piece]:
        """Yield their pieces. Raises `DamagedBatchFound` and `EndReached`, and what the iteration raises."""
        for made, others, end in self._in_order(stretches):
            yield from made
            yield from others
            if end is not None:
                try:
                    raise end
                finally:
                    end = None  # noqa: PLW2901 -- or it and this frame would keep each other, and what was rendered

    def _in_order(self, stretches: Iterable[Stretch]) -> Iterator[_Rendered]:
        waiting: deque[Begun] = deque()
        ahead = 0
        taken_bytes = 0 if self._only_sizes else _AHEAD_BYTES_MAX
        stretch: Stretch | Exception | None = None

        def next_one() -> _Rendered:
            self._budget.give(taken_bytes)
            return waiting.popleft().result()

        try:
            for stretch in _with_error(stretches):
                if ahead and self._budget.take(taken_bytes):
                    waiting.append(self._begin(stretch))
                    if len(waiting) > ahead:
                        yield next_one()
                else:
                    while waiting:
                        yield next_one()
                    yield self._begin(stretch).result()
                ahead = min(ahead + 1, _THREADS)
            while waiting:
                yield next_one()
        finally:
            self._budget.give(taken_bytes * len(waiting))  # the reader has stopped, or a stretch has failed
            stretch = None  # it may be the error that is raised, and would keep this frame

    def _begin(self, stretch: Stretch | Exception) -> Begun:
        if isinstance(stretch, Exception):
            return _failed(stretch)
        if _THREADS > 1 and not self._is_quick and stretch.end - stretch.start >= _APART_BYTES_MIN:
            return _POOL.submit(self._render_apart, stretch)
        try:
            rendered = self._render(stretch)
        except Exception as error:  # noqa: BLE001 -- it is raised in its turn
            return _failed(error)
        begun: Begun = Future()
        begun.set_result(rendered)
        return begun

    def _render_apart(self, stretch: Stretch) -> _Rendered:
        with self._budget.work():
            return self._render(stretch)

    def _render(self, stretch: Stretch) -> _Rendered:
        pieces = self._pieces(stretch)
        made: list[Piece] = []
        made_bytes = 0
        end_s = monotonic() + _AHEAD_S_MAX
        try:
            for piece in pieces:
                if piece is None:
                    return _Rendered(made, _waiting(pieces), None)
                made.append(piece)
                made_bytes += 0 if self._only_sizes else piece.size_bytes
                if made_bytes >= _AHEAD_BYTES_MAX or monotonic() > end_s:
                    return _Rendered(made, _waiting(pieces), None)
        except (DamagedBatchFound, EndReached) as end:
            forget_frames(end)  # they hold what was rendered
            return _Rendered(made, (), end)
        return _Rendered(made, (), None)

    def _pieces(self, stretch: Stretch) -> Iterator[Piece | None]:
        """Yield the pieces, and None where the next one has to wait for memory, in another thread than this."""
        position, visible = stretch.start, self._visible
        for batch in stretch.walk:
            if batch.position < position:  # it was rendered together with one before it
                continue
            if batch.base_offset >= visible.end_offset:
                if not self._to_tail:
                    raise EndReached
                raise DamagedBatchFound(batch, _beyond(batch, visible.end_offset))
            if (known := self._too_large.error_of(batch, only_sizes=self._only_sizes)) is not None:
                raise DamagedBatchFound(batch, known)
            try:
                try:
                    found = self._lines.render(batch, visible, stretch.end, only_size=self._only_sizes)
                except MustWaitError:
                    yield None
                    found = self._lines.render(batch, visible, stretch.end, only_size=self._only_sizes)
            except CorruptBatchError as error:
                forget_frames(error)
                if isinstance(error, DecompressedTooLargeError):
                    self._too_large.add(batch, error, only_sizes=self._only_sizes)
                raise DamagedBatchFound(batch, error) from None
            self._is_quick = _is_quick(batch)
            position = batch.position + found.log_bytes
            stretch.move_to(position)
            last_batch = batch.position + found.last_at
            yield Piece(position, last_batch, found.size_bytes, found.lines, first_offset=batch.base_offset)


def _waiting(pieces: Iterator[Piece | None]) -> Iterator[Piece]:
    """Yield the pieces in the reader's own thread, which may wait for memory."""
    for piece in pieces:
        if piece is None:
            raise MustWaitError
        yield piece


def _failed(error: Exception) -> Begun:
    begun: Begun = Future()
    begun.set_exception(error)
    return begun


def _with_error(stretches: Iterable[Stretch]) -> Iterator[Stretch | Exception]:
    """Yield the stretches, and at last the error with which their iteration ends."""
    try:
        yield from stretches
    except Exception as error:  # noqa: BLE001 -- it is raised once what came before it is rendered
        yield error


def _is_quick(batch: Batch) -> bool:
    """True if batches like this one are rendered by one thread as fast as by several."""
    codec = batch.attributes & CODEC_MASK
    return codec == Codec.NONE or (codec in _QUICK_CODECS and batch.size_bytes <= _QUICK_BYTES_MAX)


def _identity(batch: Batch, *, only_sizes: bool) -> tuple[int, ...]:
    """Return what tells the batch from others that were in its place, and how it is rendered."""
    return batch.position, batch.base_offset, batch.size_bytes, batch.crc, only_sizes


def _beyond(batch: Batch, end_offset: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"the batch begins with offset {batch.base_offset}, and the log ends at {end_offset}",
        position=batch.position,
        offset=batch.base_offset,
    )
