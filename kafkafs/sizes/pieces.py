"""A log's file in pieces: the rendered bytes of its batches, from any batch on.

Pieces do not depend on where one begins, so counting can be continued, and a reader can begin at a counted place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import newest_decoder_of, topic_of
from kafkafs.dump.text import TextForm
from kafkafs.sizes.passing import Passing
from storage.errors import CorruptBatchError, FramingError
from storage.segment import GappedScan, LogScan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from kafkafs.render.batch_lines import BatchLines, Visible
    from storage.files import ReadableFile

UNSETTLED: Final = -1
"""The position after a piece that may be replaced once the file has grown."""


_GATHERED_BYTES: Final = 128 * 1024


class Piece(NamedTuple):
    """The rendered bytes of some batches of a file.

    `position` is where the next batches begin, and `last_batch` where its last one does, -1 if that is unknown. A
    damaged piece has a reason and no bytes.
    """

    position: int
    last_batch: int
    size_bytes: int
    data: Buffer
    damage: CorruptBatchError | None = None


class Pieces(Protocol):
    """Cuts a log's file into pieces."""

    def of(self, file: ReadableFile, start: int, end: int, *, only_sizes: bool) -> Iterator[Piece]:
        """The pieces of the file between two positions, where a batch begins at the first of them."""


class LinePieces:
    """The lines of the batches of a segment that a reader sees, up to the first that begins at his end.

    Damage is skipped as a check of the log does; for a reader `to_tail`, up to the log's very end, everything that does
    not belong before it is damage too.
    """

    def __init__(self, lines: BatchLines, visible: Visible, base_offset: int, *, to_tail: bool) -> None:
        self._lines = lines
        self._visible = visible
        self._base_offset = base_offset
        self._to_tail = to_tail

    def of(self, file: ReadableFile, start: int, end: int, *, only_sizes: bool) -> Iterator[Piece]:
        """Pieces of about a megabyte of the log at most."""
        position, next_offset = start, self._base_offset
        scan = GappedScan(LogScan(file, start=start, end=end), self._base_offset, end=end)
        while not scan.is_done:
            try:
                for batch, come_to in Passing(self._lines, self._visible, only_sizes=only_sizes).of(scan):
                    if batch.position < position:  # it was passed together with one before it
                        next_offset = batch.last_offset + 1
                        continue
                    if batch.base_offset >= self._visible.end_offset and not self._to_tail:
                        return
                    try:
                        passed = come_to()
                    except CorruptBatchError as error:
                        scan.next_offset = next_offset
                        gap = scan.gap_of(error, batch)
                        position = end if gap.end is None else gap.end
                        yield Piece(position, batch.position, 0, b"", gap.error)
                        if position != batch.position + batch.size_bytes:
                            scan.resume(gap)
                            break
                        continue
                    position = batch.position + passed.log_bytes
                    next_offset = batch.last_offset + 1
                    yield Piece(position, batch.position + passed.last_at, passed.size_bytes, passed.lines)
            except FramingError as error:
                scan.next_offset = next_offset
                gap = scan.gap_of(error)
                if gap.is_overrun and scan.is_cut_short:  # the file was cut meanwhile
                    return
                position = end if gap.end is None else gap.end
                is_rest = gap.is_overrun and gap.is_unused
                yield Piece(position, UNSETTLED, 0, b"", None if is_rest else gap.error)
                scan.resume(gap)


class DumpPieces:
    """The lines that kafka-dump-log prints of a file, with the file's name alone in the first of them.

    An internal topic's records are printed by the decoder that the tool of 3.9 has for it, and those that only 4 knows
    by that of 4. The line for a file's end that is no batch is an unsettled piece. Damage is a line here.
    """

    def of(self, file: ReadableFile, start: int, end: int, *, only_sizes: bool) -> Iterator[Piece]:
        """Yield a piece for each batch, and for the errors after it, up to the end of the file."""
        topic = topic_of(file.path)
        form = NamedForm(decoder=None if topic is None else newest_decoder_of(topic))
        dump = LogDump(file, form, Selection(), start=start)
        held: list[bytes] = []
        batch_position = UNSETTLED
        for run in dump:
            if dump.position not in (batch_position, start):
                yield _joined(held, dump.position, batch_position, only_sizes=only_sizes)
                held = []
            batch_position = dump.position
            held += run
        if held:
            end = UNSETTLED if dump.end is None or dump.end == start else dump.end
            yield _joined(held, end, batch_position, only_sizes=only_sizes)


class NamedForm(TextForm):
    """The real tool's lines, as if it had been called in the file's own directory."""

    def heading(self, path: str) -> list[bytes]:
        """Name the file, and what its own name says."""
        return super().heading(path.rpartition("/")[2])


def gathered(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Join small pieces; damaged and unsettled ones stay by themselves."""
    held: list[Piece] = []
    size_bytes = 0
    for piece in pieces:
        is_apart = piece.damage is not None or piece.position == UNSETTLED
        if held and (is_apart or held[-1].damage is not None or size_bytes >= _GATHERED_BYTES):
            yield _as_one(held)
            held, size_bytes = [], 0
        held.append(piece)
        size_bytes += piece.size_bytes
    if held:
        yield _as_one(held)


def _as_one(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    position, last_batch, *_ = pieces[-1]
    data = b"".join([piece.data for piece in pieces])
    return Piece(position, last_batch, len(data), data)


def _joined(lines: list[bytes], position: int, last_batch: int, *, only_sizes: bool) -> Piece:
    if only_sizes:
        return Piece(position, last_batch, sum(map(len, lines)) + len(lines), b"")
    text = b"\n".join([*lines, b""])
    return Piece(position, last_batch, len(text), text)
