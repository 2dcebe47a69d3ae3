"""How many rendered bytes a log's file has, as far as it was counted."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.content.piece import UNSETTLED
from kafkafs.content.stretches import TooLargeBatches
from storage.record import BATCH_HEADER_BYTES, MAGIC_AT

if TYPE_CHECKING:
    from kafkafs.content.piece import Piece
    from storage.errors import CorruptBatchError
    from storage.files import ReadableFile

MARK_LOG_BYTES: Final = 512 * 1024
MARK_RENDERED_BYTES: Final = 1024 * 1024
DAMAGE_KEPT: Final = 1000
NO_END: Final = 2**63 - 1
"""The end offset for a reader that wants all of a file."""

_BATCH_MAGIC: Final = 2
_OFFSET: Final = Struct(">q")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class Mark(NamedTuple):
    """A place in the file at which a batch begins, and the rendered bytes of the counted batches before it."""

    position: int
    rendered: int


class Probe(NamedTuple):
    """The beginning of the last counted batch. If it is unchanged, so are the batches before it."""

    position: int = 0
    header: bytes = b""


class DamagedBatch(NamedTuple):
    """A damaged batch: the place after it, and the reason."""

    behind: Mark
    error: CorruptBatchError


class CountedFile:
    """The batches of one file from the position `start` on, in the order of their positions.

    `identity` is the file's. Counts are only added to, and no longer once it `is_sealed`. Once it `is_void`, they no
    longer describe the log. Any thread may add and ask.
    """

    def __init__(self, base_offset: int, identity: tuple[int, int], *, start: int = 0) -> None:
        self.base_offset = base_offset
        self.identity = identity
        self.start = start
        self.end = Mark(start, 0)
        self.end_offset = -1  # below which no visible batch is left to be counted, once anything was
        self.damaged = 0
        self.damages: list[DamagedBatch] = []  # the first of the damaged batches
        self.too_large = TooLargeBatches()
        self.probe = Probe()
        self.is_void = False
        self.is_sealed = False
        self._adding = Lock()
        self._positions = array("q", [start])
        self._rendered = array("q", [0])

    @classmethod
    def restored(
        cls, base_offset: int, identity: tuple[int, int], marks: tuple[array[int], array[int]], end: Mark, probe: Probe
    ) -> CountedFile:
        """Return the counts of an earlier process, which found no damage."""
        counted = cls(base_offset, identity, start=marks[0][0])
        counted._positions, counted._rendered = marks
        counted.end = end
        counted.probe = probe
        return counted

    @property
    def marks(self) -> tuple[array[int], array[int]]:
        """Positions and rendered bytes of the places that are kept."""
        with self._adding:
            return self._positions[:], self._rendered[:]

    def add(self, at: int, piece: Piece, file: ReadableFile) -> None:
        """Add the piece of the file that begins at a position, if all before it is counted and it is settled."""
        with self._adding:
            if self.is_sealed or at != self.end.position or piece.position == UNSETTLED:
                return
            end = Mark(piece.position, self.end.rendered + piece.size_bytes)
            if piece.damage is not None:
                self.damaged += 1
                if len(self.damages) < DAMAGE_KEPT:
                    self.damages.append(DamagedBatch(end, piece.damage))
            if (
                end.position - self._positions[-1] >= MARK_LOG_BYTES
                or end.rendered - self._rendered[-1] >= MARK_RENDERED_BYTES
            ):
                self._positions.append(end.position)
                self._rendered.append(end.rendered)
            if piece.last_batch >= self.probe.position:
                header = file.read_at(piece.last_batch, BATCH_HEADER_BYTES)
                self.probe = Probe(piece.last_batch, header[: end.position - piece.last_batch])
            self.end = end

    def seal(self) -> None:
        """Refuse further additions."""
        with self._adding:
            self.is_sealed = True

    @property
    def next_offset(self) -> int:
        """The offset after the last batch that was counted; the base offset before that."""
        header = self.probe.header
        if len(header) <= MAGIC_AT:
            return self.base_offset
        (offset,) = _OFFSET.unpack_from(header)
        if header[MAGIC_AT] >= _BATCH_MAGIC and len(header) == BATCH_HEADER_BYTES:
            offset += _LAST_OFFSET_DELTA.unpack_from(header, _LAST_OFFSET_DELTA_AT)[0]
        return max(int(offset) + 1, self.base_offset)

    def is_counted(self, position: int, end_offset: int) -> bool:
        """True if everything before the position and the offset is counted."""
        return self.end.position >= position or self.end_offset >= end_offset

    def before_rendered(self, rendered: int) -> Mark:
        """A place before or at the byte of this number."""
        end = self.end
        if rendered >= end.rendered:
            return end
        with self._adding:
            index = max(bisect_right(self._rendered, rendered) - 1, 0)
            return Mark(self._positions[index], self._rendered[index])

    def before_position(self, position: int) -> Mark:
        """A place before or at the position, which is not below the start."""
        end = self.end
        if position >= end.position:
            return end
        with self._adding:
            index = max(bisect_right(self._positions, position) - 1, 0)
            return Mark(self._positions[index], self._rendered[index])

    def damaged_behind(self, position: int) -> int:
        """Return how many damaged batches there are from the position on, at which a batch begins."""
        return self.damaged - sum(damage.behind.position <= position for damage in self.damages)

    def damage_behind(self, position: int) -> DamagedBatch | None:
        """Return the first of them, if it is among the kept ones."""
        return next((damage for damage in self.damages if damage.behind.position > position), None)

    def is_still_in(self, file: ReadableFile) -> bool:
        """True if the last counted batch is still there, and so those before it."""
        position, header = self.probe
        return file.size_bytes() >= self.end.position and file.read_at(position, len(header)) == header
