"""A log's file in pieces: the rendered bytes of its batches, from any batch on.

Pieces do not depend on where one begins, so counting can be continued, and a reader can begin at a counted place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkafs.content.piece import PART, UNSETTLED, Piece
from kafkafs.content.stretches import (
    STRETCH_BYTES_MAX,
    DamagedBatchFound,
    EndReached,
    RenderedStretches,
    TooLargeBatches,
)
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import newest_decoder_of, topic_of
from kafkafs.dump.text import TextForm
from storage.errors import FramingError
from storage.record import BATCH_HEADER_BYTES, LeasedBuffer
from storage.segment import GappedScan, LogScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkafs.render.batch_lines import BatchLines, Visible
    from storage.files import ReadableFile


PART_BYTES: Final = 1024 * 1024
"""How many bytes of a batch's lines make a piece, if it has more."""


class Pieces(Protocol):
    """Cuts a log's file into pieces."""

    def of(self, file: ReadableFile, start: int, end: int, *, only_sizes: bool) -> Iterator[Piece]:
        """The pieces of the file between two positions, where a batch begins at the first of them."""


class LinePieces:
    """The lines of the batches of a segment that a reader sees, up to the first that begins at his end.

    Damage is skipped as a check of the log does; for a reader `to_tail`, up to the log's very end, everything that does
    not belong before it is damage too. What `too_large` knows of the file is not found out again.
    """

    def __init__(
        self,
        lines: BatchLines,
        visible: Visible,
        base_offset: int,
        *,
        to_tail: bool,
        too_large: TooLargeBatches | None = None,
    ) -> None:
        self._too_large = too_large or TooLargeBatches()
        self._lines = lines
        self._visible = visible
        self._base_offset = base_offset
        self._to_tail = to_tail

    def of(self, file: ReadableFile, start: int, end: int, *, only_sizes: bool) -> Iterator[Piece]:
        """Yield pieces of about a megabyte of the log at most."""
        scan = GappedScan(LogScan(file, start=start, end=end), self._base_offset, end=end)
        stretches = RenderedStretches(
            self._lines, self._visible, only_sizes=only_sizes, to_tail=self._to_tail, too_large=self._too_large
        )
        last_batch = -1
        while not scan.is_done:
            try:
                for piece in stretches.of(scan.stretches(STRETCH_BYTES_MAX)):
                    last_batch = piece.last_batch
                    yield piece
            except EndReached:
                return
            except (DamagedBatchFound, FramingError) as found:
                batch, error = (found.batch, found.error) if isinstance(found, DamagedBatchFound) else (None, found)
                scan.next_offset = self._offset_after(file, last_batch)
                gap = scan.gap_of(error, batch)
                if gap.is_overrun and scan.is_cut_short:  # the file was cut meanwhile
                    return
                position = end if gap.end is None else gap.end
                is_rest = gap.is_overrun and gap.is_unused
                yield Piece(
                    position, UNSETTLED if batch is None else batch.position, 0, b"", None if is_rest else gap.error
                )
                scan.resume(gap)

    def _offset_after(self, file: ReadableFile, position: int) -> int:
        """Return the offset after the last batch rendered, which begins at the position; -1 is before the first."""
        if position < 0:
            return self._base_offset
        last_offset = LogScan(file, start=position, window_bytes=BATCH_HEADER_BYTES).next_last_offset
        return self._base_offset if last_offset is None else last_offset + 1


class DumpPieces:
    """The lines that kafka-dump-log prints of a file, with the file's name alone in the first of them.

    An internal topic's records are printed by the decoder that the tool of 3.9 has for it, and those that only 4 knows
    by that of 4. The line for a file's end that is no batch is an unsettled piece. Damage is a line here.
    """

    def of(
        self,
        file: ReadableFile,
        start: int,
        end: int,  # noqa: ARG002 -- the dump ends where the log does
        *,
        only_sizes: bool,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Piece]:
        """Yield a piece for each batch and the errors after it, several if it has many lines, up to the file's end.

        It ends earlier, also within a batch, if it is cancelled.
        """
        topic = topic_of(file.path)
        form = NamedForm(decoder=None if topic is None else newest_decoder_of(topic))
        dump = LogDump(file, form, Selection(), start=start)
        held = _Text(only_sizes=only_sizes)
        batch_position = UNSETTLED
        for run in dump:
            if dump.position not in (batch_position, start):
                yield held.piece(dump.position, batch_position)
                held = _Text(only_sizes=only_sizes)
            batch_position = dump.position
            held.add(run)
            if is_cancelled():
                return
            if held.held_bytes >= PART_BYTES:
                yield from held.parts()
        if held.size_bytes:
            yield held.piece(UNSETTLED if dump.end is None or dump.end == start else dump.end, batch_position)


class NamedForm(TextForm):
    """The real tool's lines, as if it had been called in the file's own directory."""

    def heading(self, path: str) -> list[bytes]:
        """Name the file, and what its own name says."""
        return super().heading(path.rpartition("/")[2])


class _Text:
    """The lines of a batch, of which those are held that no piece has yet."""

    def __init__(self, *, only_sizes: bool) -> None:
        self.size_bytes = 0
        self.held_bytes = 0
        self._only_sizes = only_sizes
        self._lines: list[bytes | LeasedBuffer] = []

    def add(self, lines: list[bytes | LeasedBuffer]) -> None:
        """Add lines, each with a newline after it."""
        size_bytes = sum(map(len, lines)) + len(lines)
        self.size_bytes += size_bytes
        if not self._only_sizes:
            self._lines += lines
            self.held_bytes += size_bytes

    def parts(self) -> Iterator[Piece]:
        """Yield pieces with the lines that are held, after which more follow. Leased lines are not copied."""
        lines, self._lines, self.held_bytes = self._lines, [], 0
        joined: list[bytes | LeasedBuffer] = []
        for line in lines:
            if isinstance(line, LeasedBuffer):
                if joined:
                    yield _part(_joined(joined))
                yield _part(line)
                joined = [b""]  # of which the line's newline comes
            else:
                joined.append(line)
        yield _part(_joined(joined))

    def piece(self, position: int, last_batch: int) -> Piece:
        """Return the last piece, which ends before a position."""
        return Piece(position, last_batch, self.size_bytes, self._taken())

    def _taken(self) -> bytes:
        text = _joined(self._lines)
        self._lines, self.held_bytes = [], 0
        return text


def _joined(lines: Sequence[bytes | LeasedBuffer]) -> bytes:
    return b"\n".join([*lines, b""])


def _part(text: bytes | LeasedBuffer) -> Piece:
    return Piece(PART, UNSETTLED, len(text), text)
