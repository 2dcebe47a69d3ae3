"""One log made of the replicas that are left of a partition: which one, what fills its damage, and what is lost.

The replica is the one that an unclean election would best choose: that with the highest leader epoch in its last batch,
and of those the longest. Where it is damaged, the batches come from another replica that has the same history there:
neither leader epochs, nor the batches around, nor what is left of a broken batch may contradict it. Composing reads
what is not the same in all replicas once more; nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.files import FileRange
from storage.record.layout import NO_LEADER_EPOCH
from storage.replicas.comparison import merged, partings
from storage.replicas.digests import OffsetRange
from storage.replicas.fitting import fits
from storage.segment.names import parse_name
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.log.epoch_entries import EpochStart
    from storage.record.reading import Batch
    from storage.replicas.comparison import Parting
    from storage.replicas.order import Damage, Run
    from storage.replicas.scan import Replica


class NewSegment(NamedTuple):
    """A segment to be written: its bytes, one range after the other. `modified_ms` is its log's time."""

    base_offset: int
    ranges: tuple[FileRange, ...]
    modified_ms: int


class Filled(NamedTuple):
    """Offsets that the chosen replica lacks, and the replica that has them."""

    offsets: OffsetRange
    replica: Replica


class Gap(NamedTuple):
    """Offsets that no replica has, where the chosen one is damaged."""

    offsets: OffsetRange
    reason: str


class Divergence(NamedTuple):
    """Offsets that another replica has with a history of its own: the log has other records there, or ends before."""

    offsets: OffsetRange
    replica: Replica


class Composition(NamedTuple):
    """A log of several replicas, from `start_offset` up to `end_offset`."""

    chosen: Replica
    start_offset: int
    end_offset: int
    segments: tuple[NewSegment, ...]
    filled: tuple[Filled, ...]
    gaps: tuple[Gap, ...]
    divergences: tuple[Divergence, ...]

    @property
    def lost(self) -> int:
        """How many offsets other replicas have with a history of their own."""
        ranges = merged(each.offsets for each in self.divergences)
        return sum(end - begin for begin, end in ranges)

    @property
    def size_bytes(self) -> int:
        """The size of the segments."""
        return sum(each.size_bytes for segment in self.segments for each in segment.ranges)


def compose(replicas: Sequence[Replica], start_offset: int = 0) -> Composition:
    """Compose the log of a partition that begins at the offset, or where the chosen replica does if that is later."""
    chosen = max(replicas, key=_worth)
    others = [
        _Other(each, common := common_end(chosen, each), partings(chosen, each, common), [])
        for each in sorted(replicas, key=lambda each: (-each.last_epoch, -each.end_offset))
        if each is not chosen
    ]
    making = _Making(chosen, others)
    making.make()
    divergences = [Divergence(offsets, other.replica) for other in others for offsets in other.lost()]
    end_offset = making.next_offset
    return Composition(
        chosen=chosen,
        start_offset=min(max(start_offset, chosen.base_offset), end_offset),
        end_offset=end_offset,
        segments=tuple(
            NewSegment(base, tuple(ranges), making.modified_ms[base]) for base, ranges in making.segments.items()
        ),
        filled=tuple(making.filled),
        gaps=tuple(making.gaps),
        divergences=tuple(divergences),
    )


def _worth(replica: Replica) -> tuple[int, int, int, bool]:
    """Return what a replica is chosen by. Of those that end alike and have no damage one may still have holes."""
    return replica.last_epoch, replica.end_offset, -len(replica.damages), not replica.lacks_offsets


def common_end(one: Replica, other: Replica) -> int:
    """Return the offset up to which two replicas have the same batches, as far as each has any."""
    if NO_LEADER_EPOCH in (one.last_epoch, other.last_epoch):
        return min(one.end_offset, other.end_offset)  # batches of old versions have no epochs to tell by
    ours, theirs = _ends(one.epochs, one.end_offset), _ends(other.epochs, other.end_offset)
    shared = ours.keys() & theirs.keys()
    if shared:
        return min(ours[max(shared)], theirs[max(shared)])
    later = max((one, other), key=lambda each: each.last_epoch)
    return min(one.end_offset, other.end_offset, later.epochs[0].offset)


def _ends(epochs: Sequence[EpochStart], end_offset: int) -> dict[int, int]:
    """Return the offset after each epoch's last batch."""
    ends = [*(each.offset for each in epochs[1:]), end_offset]
    return {each.epoch: end for each, end in zip(epochs, ends, strict=False)}


class _Other(NamedTuple):
    """Another replica than the chosen one, and what is known of its history against that one's.

    By their leader epochs they have the same one up to `common_end`; `refused` are offsets that were not taken.
    """

    replica: Replica
    common_end: int
    partings: tuple[Parting, ...]
    refused: list[OffsetRange]

    def lost(self) -> list[OffsetRange]:
        """Return the offsets that the replica has with a history of its own."""
        end = self.replica.end_offset
        rest = [OffsetRange(self.common_end, end)] if self.common_end < end else []
        return merged([*(each.offsets for each in self.partings), *self.refused, *rest])

    def is_contradicted(self, gap: OffsetRange) -> bool:
        """Return True if the batches around a gap of the chosen replica contradict this one's."""
        return any(each.after < gap.end and gap.begin < each.before for each in self.partings)


class _Piece(NamedTuple):
    """Batches of another replica one after another, the run that they are in, and their offsets."""

    bytes: FileRange
    run: Run
    offsets: OffsetRange


class _Making:
    """A log being composed, from its first segment on."""

    def __init__(self, chosen: Replica, others: Sequence[_Other]) -> None:
        self.segments: dict[int, list[FileRange]] = {}
        self.modified_ms: dict[int, int] = {}
        self.filled: list[Filled] = []
        self.gaps: list[Gap] = []
        self.next_offset = chosen.base_offset
        self._chosen = chosen
        self._others = others
        self._is_ended = False  # at a record that is too late, in the place of damage

    def make(self) -> None:
        chosen, damages = self._chosen, list(self._chosen.damages)
        for run in chosen.runs:
            passed: list[Damage] = []
            while damages and damages[0].offset <= run.first_offset:
                passed.append(damages.pop(0))
            if passed and run.first_offset > self.next_offset:
                self._fill(run, passed)
            if self._is_ended:
                return
            self._add(run.base_offset, FileRange(chosen.directory, run.name, run.begin, run.end), chosen)
            self.next_offset = run.next_offset
        # No other replica goes on in the same history: it would be the longest, and chosen.
        if damages:
            self.gaps.append(Gap(OffsetRange(self.next_offset, self.next_offset), damages[0].reason))

    def _fill(self, following: Run, damages: Sequence[Damage]) -> None:
        """Take the batches from the next offset up to a run of the chosen replica from others."""
        home = following.base_offset if following.base_offset <= self.next_offset else self._damaged_segment()
        for other in self._others:
            replica, begin = other.replica, self.next_offset
            pieces = list(_pieces(replica, begin, min(following.first_offset, other.common_end)))
            if not self._is_of_this_history(other, pieces, OffsetRange(begin, following.first_offset), damages):
                other.refused.extend(piece.offsets for piece in pieces)
                continue
            for piece in pieces:
                base_offset = max(piece.run.base_offset, self.next_offset) if home is None else home
                self._add(base_offset, piece.bytes, replica)
                self.next_offset = piece.offsets.end
            if self.next_offset > begin:
                self.filled.append(Filled(OffsetRange(begin, self.next_offset), replica))
            if replica.late_offset is not None and replica.late_offset == self.next_offset < following.first_offset:
                self._is_ended = True
                return
        if self.next_offset < following.first_offset:
            self.gaps.append(Gap(OffsetRange(self.next_offset, following.first_offset), damages[0].reason))

    def _is_of_this_history(
        self, other: _Other, pieces: Sequence[_Piece], gap: OffsetRange, damages: Sequence[Damage]
    ) -> bool:
        """Return True if nothing contradicts that batches of another replica are those that the chosen one had."""
        batches = (batch for piece in pieces for batch in _batches(piece.bytes))
        known = fits(self._chosen.directory, damages, gap, batches) if pieces else None
        return not other.is_contradicted(gap) if known is None else known

    def _damaged_segment(self) -> int | None:
        """Return the segment in which the next offset is damaged; None if its whole segment is missing."""
        for damage in self._chosen.damages:
            name = parse_name(damage.name)
            if name is not None and damage.offset == self.next_offset:
                return None if damage.name not in self._chosen.modified_ms else name.offset
        return None

    def _add(self, base_offset: int, piece: FileRange, replica: Replica) -> None:
        pieces = self.segments.setdefault(base_offset, [])
        self.modified_ms[base_offset] = max(
            self.modified_ms.get(base_offset, 0), replica.modified_ms.get(piece.name, 0)
        )
        before = pieces[-1] if pieces else None
        if before is not None and (before.directory, before.name, before.end) == (
            piece.directory,
            piece.name,
            piece.begin,
        ):
            pieces[-1] = before._replace(end=piece.end)
        else:
            pieces.append(piece)


def _pieces(replica: Replica, begin: int, end: int) -> Iterator[_Piece]:
    """Yield the batches of a replica that lie between two offsets."""
    for run in replica.runs:
        if run.next_offset <= begin or run.first_offset >= end:
            continue
        if begin <= run.first_offset and run.next_offset <= end:
            whole = FileRange(replica.directory, run.name, run.begin, run.end)
            yield _Piece(whole, run, OffsetRange(run.first_offset, run.next_offset))
            continue
        inside: _Piece | None = None
        for batch in _batches(FileRange(replica.directory, run.name, run.begin, run.end)):
            first_offset, next_offset = batch.read_first_offset(), batch.last_offset + 1
            if first_offset < begin or next_offset > end:
                continue
            batch_end = batch.position + batch.size_bytes
            if inside is None:
                inside = _Piece(
                    FileRange(replica.directory, run.name, batch.position, batch_end),
                    run,
                    OffsetRange(first_offset, next_offset),
                )
            else:
                inside = inside._replace(
                    bytes=inside.bytes._replace(end=batch_end), offsets=inside.offsets._replace(end=next_offset)
                )
        if inside is not None:
            yield inside


def _batches(piece: FileRange) -> Iterator[Batch]:
    """Yield the batches in a part of a file."""
    with piece.directory.open_reading(piece.name) as file:
        yield from LogScan(file, start=piece.begin, end=piece.end)
