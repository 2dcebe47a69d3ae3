"""The batches of a view one after another, whatever is damaged in between.

A batch is damaged if its checksum or its frame is wrong, or if its offsets are not the segment's. The next one is
sought as a check of the log does it. Whether the records of a sound batch decode is left to those who decode them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, FramingError
from storage.segment.index.zero_tail import is_zero
from storage.segment.log_file import WINDOW_BYTES
from storage.segment.names import Kind
from storage.segment.sound_batch_search import position_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.log.view import LogView, SegmentSlice
    from storage.record.reading import Batch
    from storage.segment.segment import Segment


def batches_past_damage(
    view: LogView, offset: int, *, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[Segment, Batch | CorruptBatchError]]:
    """The sound batches from the one on that holds the offset, and in their places the damage that was passed over.

    Damage is told if it may have held something from the offset on. What lies behind the view is damage too where it
    is neither zeros nor a batch that is not there yet. Memory stays within the larger of a window and a batch. Raises
    `FileNotFoundError` at a segment that is gone.
    """
    for part in view.slices(offset):
        damage: list[CorruptBatchError] = []  # of which it is not known yet whether it lies before the offset
        for piece in _Walk(part, offset, window_bytes):
            if isinstance(piece, CorruptBatchError):
                damage.append(piece)
                continue
            if damage and _begins_above(piece, offset):
                yield from ((part.segment, error) for error in damage)
            damage.clear()
            if piece.last_offset >= offset:
                yield part.segment, piece
        yield from ((part.segment, error) for error in damage)


class _Walk:
    """The batches of a segment from before an offset on, and its damage; iterate over it once."""

    def __init__(self, part: SegmentSlice, offset: int, window_bytes: int) -> None:
        self._segment, self._end, self._end_offset = part
        self._path = self._segment.path(Kind.LOG)
        self._window_bytes = window_bytes
        self._batches: Iterator[Batch] | None = self._segment.batches_near(offset, self._end, window_bytes=window_bytes)
        self._next_offset = self._segment.base_offset
        self._position = 0  # behind the last batch, be it damaged

    def __iter__(self) -> Iterator[Batch | CorruptBatchError]:
        while self._batches is not None:
            try:
                for batch in self._batches:
                    end = batch.position + batch.size_bytes
                    damage = self._damage_of(batch)
                    if damage is None:
                        yield from self._in_order(batch)
                    else:
                        yield damage
                        if not self._goes_on_behind(batch.position, end):
                            break
                    self._position = end
                else:
                    self._batches = None
                    self._check_end()
            except FramingError as error:
                yield error.located(path=self._path)
                self._goes_on_behind(self._position if error.position is None else error.position, None)

    def _damage_of(self, batch: Batch) -> CorruptBatchError | None:
        try:
            batch.check_crc()
        except CorruptBatchError as error:
            return error.located(path=self._path)
        base_offset, first_offset = self._segment.base_offset, batch.base_offset
        if base_offset <= first_offset <= batch.last_offset < self._end_offset:
            return None
        return CorruptBatchError(
            f"the batch has the offsets from {first_offset} to {batch.last_offset}, and the segment those from "
            f"{base_offset} up to {self._end_offset}",
            path=self._path,
            position=batch.position,
            offset=first_offset,
        )

    def _in_order(self, batch: Batch) -> Iterator[Batch | CorruptBatchError]:
        """A sound batch; behind an error if it, or the one before, has offsets that are not its own."""
        first_offset = batch.base_offset
        if first_offset < self._next_offset:
            yield CorruptBatchError(
                f"the batch follows on one that ends with {self._next_offset - 1}",
                path=self._path,
                position=batch.position,
                offset=first_offset,
            )
        self._next_offset = batch.last_offset + 1
        yield batch

    def _goes_on_behind(self, start: int, own_end: int | None) -> bool:
        """Have the batches behind a damaged one next; says whether they are those that follow anyhow."""
        with self._segment.open_log() as file:
            end = file.size_bytes() if self._end is None else self._end
            position = position_behind(
                file, start, own_end, end, base_offset=self._segment.base_offset, next_offset=self._next_offset
            )
        if position is not None and position == own_end:
            return True
        self._batches = None
        if position is not None:
            self._position = position
            self._batches = self._segment.batches(position, end, window_bytes=self._window_bytes)
        return False

    def _check_end(self) -> None:
        """Raise `FramingError` if something is missing where the batches end."""
        if self._end is not None:
            self._segment.check_end(self._end)
            if self._position < self._end:
                raise FramingError(
                    f"the log ends here, {self._end - self._position} bytes before its end", position=self._position
                )
            return
        status = self._segment.log_status()
        if status is None or status.size_bytes <= self._position:
            return
        with self._segment.open_log() as file:
            end = file.size_bytes()
            if not is_zero(file, self._position, end):
                raise FramingError(f"{end - self._position} bytes follow the last whole batch", position=self._position)


def _begins_above(batch: Batch, offset: int) -> bool:
    """Whether the batch has no offset up to this one, so that it may have been in what lies before the batch."""
    return batch.read_first_offset() > offset
