"""One replica by itself made a log: all of its sound batches, on both sides of every damage.

They are copied byte for byte, except for leader epochs that contradict those around them: no checksum covers these, and
a broker would go by them. Records of broken batches come too where that is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.files import FileRange
from storage.record.layout import LARGEST_OFFSET_DELTA, NO_LEADER_EPOCH
from storage.record.rewriting import assign_offset
from storage.replicas.composition import Composition, NewSegment
from storage.replicas.order import Damage, LostOffsets, Run
from storage.replicas.unsummed import RANGE_MAX_BYTES, Place, UnsummedBatch, unsummed_batches
from storage.segment.names import parse_name
from storage.segment.scan import LogScan
from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.files import Directory
    from storage.replicas.epoch_order import OddEpoch
    from storage.replicas.scan import Replica

_DECODABLE: Final = frozenset(
    {FindingKind.CHECKSUM, FindingKind.FRAMING, FindingKind.RECORDS, FindingKind.OFFSETS, FindingKind.TORN_TAIL}
)
_PIECES_NAME: Final = "pieces"


class Unsummed(NamedTuple):
    """A batch that was made of a broken one, and the file of that."""

    name: str
    batch: UnsummedBatch


class Mended(NamedTuple):
    """A log made of one replica, what is lost of it, and what is not as it was."""

    composition: Composition
    lost: tuple[LostOffsets, ...]
    unsummed: tuple[Unsummed, ...]
    odd_epochs: tuple[OddEpoch, ...]


def mend(replica: Replica, scratch: Directory, start_offset: int = 0, *, even_unsummed: bool) -> Mended:
    """Compose the log, which begins at the offset or where the replica does if that is later.

    What is in no file of the replica is written to `scratch`, an empty directory that has to stay until the log is
    written.
    """
    mending = _Mending(replica, scratch, even_unsummed=even_unsummed)
    mending.mend()
    end_offset = mending.next_offset
    composition = Composition(
        chosen=replica,
        start_offset=min(max(start_offset, replica.base_offset), end_offset),
        end_offset=end_offset,
        segments=tuple(
            NewSegment(base, tuple(ranges), mending.modified_ms[base]) for base, ranges in mending.segments.items()
        ),
        filled=(),
        gaps=(),
        divergences=(),
    )
    return Mended(composition, tuple(mending.lost), tuple(mending.unsummed), tuple(mending.odd_epochs))


class _Mending:
    """A log being composed, from its first segment on."""

    def __init__(self, replica: Replica, scratch: Directory, *, even_unsummed: bool) -> None:
        self.segments: dict[int, list[FileRange]] = {}
        self.modified_ms: dict[int, int] = {}
        self.lost: list[LostOffsets] = []
        self.unsummed: list[Unsummed] = []
        self.odd_epochs: list[OddEpoch] = []
        self.next_offset = replica.base_offset
        self._replica = replica
        self._scratch = scratch
        self._scratch_bytes = 0
        self._even_unsummed = even_unsummed
        self._odd_epochs: dict[str, list[OddEpoch]] = defaultdict(list)
        for odd in replica.odd_epochs:
            self._odd_epochs[odd.name].append(odd)
        self._is_damaged = False  # since the last batch

    def mend(self) -> None:
        """Take everything, file after file."""
        replica = self._replica
        damages = [*replica.damages, *(() if replica.tail is None else (replica.tail,))]
        items: list[Run | Damage] = sorted([*replica.runs, *damages], key=_place)
        following = [each for each in items if isinstance(each, Run)]
        for item in items:
            if isinstance(item, Run):
                following.pop(0)
                self._go_on_at(item.first_offset)
                self._add_run(item)
                self.next_offset = item.next_offset
                continue
            self._is_damaged |= item.kind is not FindingKind.ZERO_TAIL
            if self._even_unsummed and item.kind in _DECODABLE:
                self._add_unsummed(item, following[0].first_offset if following else None)
        if self._is_damaged:
            self.lost.append(LostOffsets(self.next_offset, None))

    def _go_on_at(self, offset: int) -> None:
        """Note what is lost before the next batch: all that is missing, unless compaction removed it."""
        if offset > self.next_offset and (self._is_damaged or not self._replica.lacks_offsets):
            self.lost.append(LostOffsets(self.next_offset, offset))
        self._is_damaged = False

    def _add_run(self, run: Run) -> None:
        """Take a run, with the leader epochs mended."""
        directory, at = self._replica.directory, run.begin
        for odd in self._odd_epochs.get(run.name, ()):
            begin, end = max(odd.begin, run.begin), min(odd.end, run.end)
            if begin >= end:
                continue
            self._add(run.base_offset, run.name, FileRange(directory, run.name, at, begin))
            self._add(run.base_offset, run.name, self._written(_with_epoch(directory, run.name, begin, end, odd)))
            self.odd_epochs.append(odd._replace(begin=begin, end=end))
            at = end
        self._add(run.base_offset, run.name, FileRange(directory, run.name, at, run.end))

    def _add_unsummed(self, damage: Damage, end_offset: int | None) -> None:
        """Take what decodes of damaged bytes, up to an offset."""
        assert damage.end is not None
        name = parse_name(damage.name)
        assert name is not None
        base_offset = name.offset
        size_bytes = min(damage.end - damage.position, RANGE_MAX_BYTES)
        with self._replica.directory.open_reading(damage.name) as file:
            data = file.read_at(damage.position, size_bytes)
        bound = base_offset + LARGEST_OFFSET_DELTA + 1
        is_followed = end_offset is not None and end_offset <= bound
        end = end_offset if end_offset is not None and is_followed else bound
        begin = max(self.next_offset, base_offset)
        for found in unsummed_batches(bytes(data), Place(begin, end, self._epoch(begin), is_followed)):
            moved = found._replace(position=damage.position + found.position, end=damage.position + found.end)
            self._go_on_at(found.first_offset)
            self._is_damaged = True
            self._add(base_offset, damage.name, self._written([found.data]))
            self.unsummed.append(Unsummed(damage.name, moved))
            self.next_offset = found.last_offset + 1

    def _epoch(self, offset: int) -> int:
        """Return the leader epoch at an offset."""
        there = [each.epoch for each in self._replica.epochs if each.offset <= offset]
        return there[-1] if there else NO_LEADER_EPOCH

    def _written(self, pieces: Sequence[bytes] | Iterator[bytes]) -> FileRange:
        """Write bytes to the scratch directory."""
        begin = self._scratch_bytes
        with self._scratch.open_writing(_PIECES_NAME, create=True) as file:
            for data in pieces:
                file.write_at(self._scratch_bytes, [data])
                self._scratch_bytes += len(data)
        return FileRange(self._scratch, _PIECES_NAME, begin, self._scratch_bytes)

    def _add(self, base_offset: int, name: str, piece: FileRange) -> None:
        if piece.size_bytes:
            self.segments.setdefault(base_offset, []).append(piece)
            self.modified_ms[base_offset] = self._replica.modified_ms.get(name, 0)


def _place(item: Run | Damage) -> tuple[int, int]:
    """Return where in the log it is: the segment, and the position."""
    name = parse_name(item.name)
    assert name is not None
    return name.offset, item.begin if isinstance(item, Run) else item.position


def _with_epoch(directory: Directory, name: str, begin: int, end: int, odd: OddEpoch) -> Iterator[bytes]:
    """Yield the batches between two positions with the epoch that is in force there."""
    with directory.open_reading(name) as file:
        for batch in LogScan(file, start=begin, end=end):
            data = bytearray(batch.view(0, batch.size_bytes))
            assign_offset(data, base_offset=batch.base_offset, leader_epoch=odd.epoch_there)
            yield bytes(data)
