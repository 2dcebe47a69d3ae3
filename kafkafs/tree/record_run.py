"""The bytes of a run of records, from any position on; they never change.

The run is that of one view. Reading records that were removed or replaced since is an error.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.counted_file import NO_END
from kafkafs.content.piece import GATHERED_S_MAX, LARGE_PIECE_BYTES, UNKNOWN_OFFSET, UNSETTLED, Piece
from kafkafs.content.stretches import DamagedBatchFound, RenderedStretches
from kafkafs.locator.formats import Format
from kafkafs.render.batch_lines import Visible, lines_of
from kafkafs.render.record_cost import stored_bytes
from kafkafs.tree.errors import DamagedError, GoneError
from kafkafs.tree.held_segments import HeldSegments
from kafkafs.tree.range_sizes import RangeKey, RangeSize
from kafkafs.tree.visible_batches import VisibleBatch
from storage.errors import CorruptBatchError, forget_frames
from storage.record import BATCH_HEADER_BYTES
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from kafkafs.content.held_files import HeldFiles
    from kafkafs.content.patience import Patience
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.visible_log import VisibleLog
    from kafkafs.tree.visible_runs import VisibleRun
    from storage.record import Batch, LeasedBuffer
    from storage.segment import Segment

_PIECE_BYTES: Final = 128 * 1024
_REMOVED_OR_DAMAGED: Final = (DamagedError, GoneError, FileNotFoundError)
_MARKS_MAX: Final = 1024


class _ReadFrom(NamedTuple):
    """The file that a segment was read from, and the header and position of the last batch read."""

    identity: tuple[int, int]
    directory: Path
    position: int
    header: bytes

    def is_copied_to(self, segment: Segment, directory: Path) -> bool:
        """True if the segment's file is a copy that was made to move the partition."""
        if directory == self.directory:
            return False
        with segment.open_log() as file:
            return file.read_at(self.position, len(self.header)) == self.header


class RecordRun:
    """The visible records from `start` up to `end`, which is excluded, in one form.

    `size` is known once some run of the same has been made to its end. One thread at a time uses this.
    """

    def __init__(self, visible: VisibleLog, start: int, end: int, form: Format, source: LogSource) -> None:
        self.start = start
        self.end = end
        self._visible = visible.fresh_copy()
        self._form = form
        self._path = source.path
        self._sizes = source.range_sizes
        self._renderer = None if form is Format.BATCH else source.renderer(form)
        self._lines = lines_of(form, source.topic, source.partition)
        self._files: dict[int, _ReadFrom] = {}  # what segments were read from, by their base offsets
        self._held: HeldSegments | None = None
        self._segment: Segment | None = None
        self._marks = _Marks(start)
        self.reached: int | None = None
        """The base offset of a batch of which a piece was made last."""

        self._key = RangeKey(form, start, end, self._segments(), visible.view.truncations)
        self.size = self._sizes.get(self._key)

    def _segments(self) -> tuple[Segment, ...]:
        segments, first = self._visible.view.segments, self._visible.view.segment_of(self.start)
        if first is None or self.start >= self.end:
            return ()
        return tuple(each for each in segments[segments.index(first) :] if each.base_offset < self.end)

    def hold(self, held: HeldFiles) -> None:
        """Hold the files that are read next, until `let_go`."""
        self._held = HeldSegments(held, self._visible, self._segments())

    def let_go(self) -> None:
        """Release the held files."""
        if self._held is not None:
            self._held.close()

    def log_bytes(self) -> int:
        """Return how many bytes of log the batches of the run take."""
        log_bytes = 0
        for segment in self._segments():
            from_position = _position(segment, self.start) if segment.base_offset < self.start else 0
            log_bytes += max(_position(segment, self.end) - from_position, 0)
        return log_bytes

    def count(self, patience: Patience) -> None:
        """Render the run without making its bytes, to know its size, unless the patience is over before that."""
        position = 0
        try:
            for piece in self._pieces_from(self.start, only_sizes=True):
                self._marks.add(position, piece.first_offset)
                position += piece.size_bytes
                if patience.is_over:
                    return
        except (GoneError, FileNotFoundError):
            return
        except DamagedError as error:
            forget_frames(error)
            self._put_size(None)
        else:
            self._put_size(position)

    def pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:
        """The pieces from one on that begins at or before the position, each with the position that it begins at.

        Everything before damage is given, then raises `DamagedError`; the same goes for `FileNotFoundError` where a
        segment is gone, and `GoneError` where it has been replaced.
        """
        known_bytes = None if self.size is None else self.size.size_bytes
        if known_bytes is not None and position >= known_bytes:
            return
        position, offset = self._marks.before(position)
        failure: Exception | None = None
        try:
            for pieces in _in_groups(self._pieces_from(offset, only_sizes=False)):
                self._marks.add(position, pieces[0].first_offset)
                if pieces[-1].first_offset != UNKNOWN_OFFSET:
                    self.reached = pieces[-1].first_offset
                yield position, _joined([piece.data for piece in pieces])
                position += sum(piece.size_bytes for piece in pieces)
        except _REMOVED_OR_DAMAGED as error:
            forget_frames(error)  # they hold decoded batches, and the error is raised later
            failure = error
        if failure is None and known_bytes not in (None, position):
            failure = self.gone()
        if failure is None or isinstance(failure, DamagedError):
            self._put_size(None if failure else position)
        if failure is not None:
            try:
                raise failure
            finally:
                failure = None  # or the error and this frame would keep each other

    def _put_size(self, size_bytes: int | None) -> None:
        """Remember the size; None if damage keeps it unknown."""
        self.size = RangeSize(size_bytes, self._visible.skipped)
        self._sizes.put(self._key, self.size)

    def _pieces_from(self, offset: int, *, only_sizes: bool) -> Iterator[Piece]:
        """The pieces from the first record at or above the offset on."""
        if self._lines is None:
            for batch in self._visible.batches(offset, self.end):
                self._check_file(batch.segment, batch.batch)
                yield from self._pieces_of(batch, only_sizes=only_sizes)
            return
        stretches = RenderedStretches(self._lines, Visible(NO_END), only_sizes=only_sizes, to_tail=False)
        while True:
            alone: list[VisibleBatch] = []
            runs = self._visible.runs(offset, self.end)
            try:
                while True:
                    yield from stretches.of(self._up_to_cut(runs, alone))
                    if not alone:
                        return
                    yield from self._pieces_of(alone.pop(), only_sizes=only_sizes)
            except DamagedBatchFound as found:
                segment = self._visible.view.segment_of(found.batch.base_offset)
                path = None if segment is None else segment.path(Kind.LOG)
                self._visible.pass_over(found.error.located(path=path))
                yield _step(found.batch.base_offset)
                offset = found.batch.last_offset + 1

    def _up_to_cut(self, runs: Iterator[VisibleRun | VisibleBatch], alone: list[VisibleBatch]) -> Iterator[VisibleRun]:
        """Yield the runs before the next batch that comes by itself, and add that."""
        for run in runs:
            if isinstance(run, VisibleBatch):
                self._check_file(run.segment, run.batch)
                alone.append(run)
                return
            self._check_file(run.segment, run.walk[-1])
            yield run

    def _pieces_of(self, batch: VisibleBatch, *, only_sizes: bool) -> Iterator[Piece]:
        """The records of one batch, in pieces of which only the first says where it begins.

        A batch of no bytes has a piece, too: decoding it may take long. A batch with a record that takes too much
        memory is passed over as a damaged one is.
        """
        first_offset = batch.records[0].offset
        if only_sizes and self._renderer is not None:
            size_bytes = self._renderer.run_bytes(batch.records)
            if size_bytes is not None:
                yield Piece(UNSETTLED, -1, size_bytes, b"", first_offset=first_offset)
                return
        failure: CorruptBatchError | None = None
        try:
            for data in self._chunks(batch):
                yield Piece(UNSETTLED, -1, len(data), data, first_offset=first_offset)
                first_offset = UNKNOWN_OFFSET
            if first_offset != UNKNOWN_OFFSET:
                yield _step(first_offset)
        except CorruptBatchError as error:
            forget_frames(error)  # it is kept, and they hold the records
            path, position = batch.segment.path(Kind.LOG), batch.batch.position
            failure = error.located(path=path, position=position, offset=batch.batch.base_offset)
        if failure is not None:
            self._visible.pass_over(failure)
            yield _step(batch.batch.base_offset)

    def _chunks(self, batch: VisibleBatch) -> Iterator[bytes | LeasedBuffer]:
        if self._renderer is None:
            yield stored_bytes(batch.batch)
        else:
            yield from self._renderer.run(batch.records)

    def _check_file(self, segment: Segment, last: Batch) -> None:
        """Raise `GoneError` if the segment is not in the file that it was read from before, or, moved, in a copy."""
        known = self._files.get(segment.base_offset)
        if self._held is not None and segment is not self._segment:
            self._held.go_to(segment.base_offset)
        self._segment = segment
        status = None if self._held is not None and self._held.has(segment) else segment.log_status()
        if status is not None:
            directory = Path(segment.directory)
            if known is not None and known.identity != status.identity and not known.is_copied_to(segment, directory):
                raise self.gone()
            header = bytes(last.view(0, min(last.size_bytes, BATCH_HEADER_BYTES)))
            self._files[segment.base_offset] = _ReadFrom(status.identity, directory, last.position, header)

    def gone(self) -> GoneError:
        """Return the error for records that are gone."""
        return GoneError(f"{self._path}: what is read has been removed or replaced since it was opened")


def _step(offset: int) -> Piece:
    """Return the piece of a batch without a byte to show: the caller can stop after it."""
    return Piece(UNSETTLED, -1, 0, b"", first_offset=offset)


def _in_groups(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Yield pieces to be joined, and large ones alone; before an error, those that came before it."""
    held: list[Piece] = []
    held_bytes, end_s = 0, 0.0
    failure: Exception | None = None
    try:
        for piece in pieces:
            if held and piece.size_bytes >= LARGE_PIECE_BYTES:
                yield held
                held, held_bytes = [], 0
            if not held:
                end_s = monotonic() + GATHERED_S_MAX
            held.append(piece)
            held_bytes += piece.size_bytes
            if held_bytes >= _PIECE_BYTES or monotonic() > end_s:
                yield held
                held, held_bytes = [], 0
    except _REMOVED_OR_DAMAGED as error:
        forget_frames(error)
        failure = error
    if held:
        yield held
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None


def _joined(held: list[Buffer]) -> Buffer:
    return held[0] if len(held) == 1 else b"".join(held)


def _position(segment: Segment, offset: int) -> int:
    """Return where the batch with the offset begins, or where the batches end; damage ends them."""
    try:
        position = segment.locate(offset)
    except CorruptBatchError:
        position = None
    return segment.size_bytes if position is None else position


class _Marks:
    """Some positions at which a batch's bytes begin, and its first offsets."""

    def __init__(self, offset: int) -> None:
        self._positions = array("q", (0,))
        self._offsets = array("q", (offset,))
        self._distance_bytes = _PIECE_BYTES

    def before(self, position: int) -> tuple[int, int]:
        """The last mark at or before the position."""
        index = bisect_right(self._positions, position) - 1
        return self._positions[index], self._offsets[index]

    def add(self, position: int, offset: int) -> None:
        """Mark a position, if its offset is known and it is far enough after the last one."""
        if offset == UNKNOWN_OFFSET or position < self._positions[-1] + self._distance_bytes:
            return
        self._positions.append(position)
        self._offsets.append(offset)
        if len(self._positions) > _MARKS_MAX:
            del self._positions[1::2], self._offsets[1::2]
            self._distance_bytes *= 2
