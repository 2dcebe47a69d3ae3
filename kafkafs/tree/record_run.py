"""The bytes of a run of records, from any position on; they never change.

The run is that of one view. Reading records that were removed or replaced since is an error.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.formats import Format
from kafkafs.tree.errors import DamagedError, GoneError
from kafkafs.tree.held_segments import HeldSegments
from kafkafs.tree.range_sizes import RangeKey, RangeSize
from storage.errors import CorruptBatchError
from storage.record import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.content.held_files import HeldFiles
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.visible_log import VisibleBatch, VisibleLog
    from storage.segment import Segment

_PIECE_BYTES: Final = 128 * 1024
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
        self._files: dict[int, _ReadFrom] = {}  # what segments were read from, by their base offsets
        self._held: HeldSegments | None = None
        self._segment: Segment | None = None
        self._marks = _Marks(start)

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

    def count(self) -> None:
        """Make the run, to know its size."""
        with suppress(DamagedError):
            for _ in self.pieces_from(0):
                pass

    def pieces_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        """The pieces from one on that begins at or before the position, each with the position that it begins at.

        Everything before damage is given, then raises `DamagedError`; the same goes for `FileNotFoundError` where a
        segment is gone, and `GoneError` where it has been replaced.
        """
        known_bytes = None if self.size is None else self.size.size_bytes
        if known_bytes is not None and position >= known_bytes:
            return
        position, offset = self._marks.before(position)
        failure: Exception | None = None
        held: list[bytes] = []
        held_bytes = 0
        try:
            for chunk, first_offset in self._chunks_from(offset):
                if not held and first_offset is not None:
                    self._marks.add(position, first_offset)
                held.append(chunk)
                held_bytes += len(chunk)
                if held_bytes >= _PIECE_BYTES:
                    yield position, b"".join(held)
                    position += held_bytes
                    held, held_bytes = [], 0
        except (DamagedError, GoneError, FileNotFoundError) as error:
            failure = error
        if held:
            yield position, b"".join(held)
            position += held_bytes
        self._end_at(position, known_bytes, failure)

    def _end_at(self, position: int, known_bytes: int | None, failure: Exception | None) -> None:
        """Remember how the run ends."""
        if failure is None and known_bytes not in (None, position):
            failure = self.gone()
        if failure is None or isinstance(failure, DamagedError):
            self.size = RangeSize(None if failure else position, self._visible.skipped)
            self._sizes.put(self._key, self.size)
        if failure is not None:
            raise failure

    def _chunks_from(self, offset: int) -> Iterator[tuple[bytes, int | None]]:
        """Some bytes at a time, and with the first of a batch the offset to begin with there."""
        for batch in self._visible.batches(offset, self.end):
            self._check_file(batch)
            first_offset: int | None = batch.records[0].offset
            for chunk in self._chunks(batch):
                yield chunk, first_offset
                first_offset = None

    def _chunks(self, batch: VisibleBatch) -> Iterator[bytes]:
        if self._renderer is None:
            yield bytes(batch.batch.view(0, batch.batch.size_bytes))
        else:
            yield from self._renderer.run(batch.records)

    def _check_file(self, batch: VisibleBatch) -> None:
        """Raise `GoneError` if the segment is not in the file that it was read from before, or, moved, in a copy."""
        segment = batch.segment
        known = self._files.get(segment.base_offset)
        if self._held is not None and segment is not self._segment:
            self._held.go_to(segment.base_offset)
        self._segment = segment
        status = None if self._held is not None and self._held.has(segment) else segment.log_status()
        if status is not None:
            directory = Path(segment.directory)
            if known is not None and known.identity != status.identity and not known.is_copied_to(segment, directory):
                raise self.gone()
            last = batch.batch
            header = bytes(last.view(0, min(last.size_bytes, BATCH_HEADER_BYTES)))
            self._files[segment.base_offset] = _ReadFrom(status.identity, directory, last.position, header)

    def gone(self) -> GoneError:
        """Return the error for records that are gone."""
        return GoneError(f"{self._path}: what is read has been removed or replaced since it was opened")


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
        self._positions = [0]
        self._offsets = [offset]
        self._distance_bytes = _PIECE_BYTES

    def before(self, position: int) -> tuple[int, int]:
        """The last mark at or before the position."""
        index = bisect_right(self._positions, position) - 1
        return self._positions[index], self._offsets[index]

    def add(self, position: int, offset: int) -> None:
        """Mark a position, if it is far enough after the last one."""
        if position < self._positions[-1] + self._distance_bytes:
            return
        self._positions.append(position)
        self._offsets.append(offset)
        if len(self._positions) > _MARKS_MAX:
            del self._positions[1::2], self._offsets[1::2]
            self._distance_bytes *= 2
