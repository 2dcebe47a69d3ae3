"""Iterating over the batches of a view past damage.

A batch is damaged if its checksum or its frame is wrong, or if its offsets are not the segment's. The next one is
searched for as `kafkafs verify` does. The caller finds out whether the records of a sound batch decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, FramingError
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import Kind
from storage.segment.scan import WINDOW_BYTES, GappedScan, check_order, check_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile
    from storage.log.view import LogView, SegmentSlice
    from storage.record.reading import Batch
    from storage.segment.segment import Segment


def batches_past_damage(
    view: LogView, offset: int, *, before: int | None = None, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[Segment, Batch | CorruptBatchError]]:
    """Iterate over the sound batches from the one that holds the offset, with an error in place of each damage.

    Damage is reported if it may have held records at or after the offset. Bytes after the view's batches are damage
    too, unless they are zeros or a batch that is not there yet. Segments that begin at `before` or after it are not
    looked into. Memory stays within the larger of a window and a batch.
    Raises `FileNotFoundError` at a segment that is gone.
    """
    for part in view.slices(offset):
        if before is not None and part.segment.base_offset >= before > offset:
            return
        damage: list[CorruptBatchError] = []  # which may lie before the offset; the next batch decides
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
    """The batches of a segment from one before an offset on, and its damage; iterate over it once."""

    def __init__(self, part: SegmentSlice, offset: int, window_bytes: int) -> None:
        self._segment, self._end, self._end_offset = part
        self._offset = offset
        self._window_bytes = window_bytes

    def __iter__(self) -> Iterator[Batch | CorruptBatchError]:
        base_offset = self._segment.base_offset
        bound = self._segment.size_bytes if self._end is None else self._end
        if bound == 0 and self._is_empty():
            return
        with self._segment.open_log() as file:
            near = self._segment.scan_near(file, self._offset, bound, self._window_bytes)
            scan = GappedScan(near, base_offset)
            due_offset = base_offset
            while not scan.is_done:
                damaged: Batch | None = None
                try:
                    for batch in scan:
                        damaged = batch
                        batch.check_crc()
                        check_place(batch, base_offset, self._end_offset)
                        damaged = None
                        yield from self._out_of_order(batch, due_offset)
                        due_offset = batch.last_offset + 1
                        yield batch
                    self._check_end(scan, file)
                except CorruptBatchError as error:
                    scan.next_offset = due_offset
                    gap = scan.gap_of(error, damaged)
                    if not (gap.is_overrun and gap.is_unused and self._end is None):
                        yield gap.error
                    scan.resume(gap)

    def _is_empty(self) -> bool:
        """True if the log has no bytes now either, as that of a segment whose records were all compacted away."""
        status = self._segment.log_status()
        return status is not None and status.size_bytes == 0

    def _out_of_order(self, batch: Batch, due_offset: int) -> Iterator[CorruptBatchError]:
        """Yield an error if a sound batch, or the one before it, has offsets that are not its own."""
        try:
            check_order(batch, due_offset)
        except CorruptBatchError as error:
            yield error.located(path=self._segment.path(Kind.LOG))

    def _check_end(self, scan: GappedScan, file: ReadableFile) -> None:
        """Raise `FramingError` if batches are missing at the end, or other bytes than zeros follow it."""
        position = scan.position
        if self._end is not None:
            self._segment.check_end(self._end)
            if position < self._end:
                raise FramingError(f"the log ends here, {self._end - position} bytes before its end", position=position)
            return
        file_end = file.size_bytes()
        if not is_zero(file, position, file_end):
            scan.extend_to(file_end)
            raise FramingError(f"{file_end - position} bytes follow the last whole batch", position=position)


def _begins_above(batch: Batch, offset: int) -> bool:
    """True if the batch begins above the offset, so that the damage before it may have held the offset."""
    return batch.read_first_offset() > offset
