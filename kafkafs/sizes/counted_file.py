"""How many bytes a log's file comes to when it is rendered, as far as that was counted."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.sizes.pieces import UNSETTLED
from storage.record.layout import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from kafkafs.sizes.pieces import Piece
    from storage.errors import CorruptBatchError
    from storage.files import ReadableFile

MARK_LOG_BYTES: Final = 512 * 1024
MARK_RENDERED_BYTES: Final = 1024 * 1024
DAMAGE_KEPT: Final = 1000


class Mark(NamedTuple):
    """A place in the file at which a batch begins, and how many bytes the batches counted before it come to."""

    position: int
    rendered: int


class Probe(NamedTuple):
    """The beginning of the last batch that was counted, by which the batches before it are known to be still there."""

    position: int = 0
    header: bytes = b""


class Damage(NamedTuple):
    """A batch that comes to nothing: the place behind it, and why."""

    behind: Mark
    error: CorruptBatchError


class CountedFile:
    """The batches of one file from the position `start` on, in the order of their positions.

    `identity` is the file's. What was counted is never changed, only added to; once `is_void`, it says nothing of what
    is in the file now. Any thread may add and ask.
    """

    def __init__(self, base_offset: int, identity: tuple[int, int], *, start: int = 0) -> None:
        self.base_offset = base_offset
        self.identity = identity
        self.start = start
        self.end = Mark(start, 0)
        self.end_offset = -1  # below which no visible batch is left to be counted, once anything was
        self.damaged = 0
        self.damages: list[Damage] = []  # the first of the damaged batches
        self.probe = Probe()
        self.is_void = False
        self._adding = Lock()
        self._positions = array("q", [start])
        self._rendered = array("q", [0])

    @classmethod
    def restored(
        cls, base_offset: int, identity: tuple[int, int], marks: tuple[array[int], array[int]], end: Mark, probe: Probe
    ) -> CountedFile:
        """One that was counted before, by somebody who found no damage."""
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

    def add(self, at: int, piece: Piece) -> None:
        """Count the piece that begins at a position, if everything before that is counted and it is settled."""
        with self._adding:
            if at != self.end.position or piece.position == UNSETTLED:
                return
            end = Mark(piece.position, self.end.rendered + piece.size_bytes)
            if piece.damage is not None:
                self.damaged += 1
                if len(self.damages) < DAMAGE_KEPT:
                    self.damages.append(Damage(end, piece.damage))
            if (
                end.position - self._positions[-1] >= MARK_LOG_BYTES
                or end.rendered - self._rendered[-1] >= MARK_RENDERED_BYTES
            ):
                self._positions.append(end.position)
                self._rendered.append(end.rendered)
            self.end = end

    def is_counted(self, position: int, end_offset: int) -> bool:
        """Whether nothing is left to be counted before the position and the offset."""
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
        """How many damaged batches there are from the position on, at which a batch begins."""
        return self.damaged - sum(damage.behind.position <= position for damage in self.damages)

    def damage_behind(self, position: int) -> Damage | None:
        """The first of them, if there are any among the first of all."""
        return next((damage for damage in self.damages if damage.behind.position > position), None)

    def note(self, file: ReadableFile, last_batch: int) -> None:
        """Remember what the last counted batch looks like, if it is known where it begins."""
        if last_batch == UNSETTLED:
            return
        header = file.read_at(last_batch, BATCH_HEADER_BYTES)
        if last_batch >= self.probe.position:
            self.probe = Probe(last_batch, header[: self.end.position - last_batch])

    def is_still_in(self, file: ReadableFile) -> bool:
        """Whether the last counted batch is still there, and so those before it."""
        position, header = self.probe
        return file.size_bytes() >= self.end.position and file.read_at(position, len(header)) == header
