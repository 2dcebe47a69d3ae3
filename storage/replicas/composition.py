"""One log made of the replicas that are left of a partition: which one, what fills its damage, and what is lost.

The replica is the one that an unclean election would best choose: that with the highest leader epoch in its last batch,
and of those the longest. Where it is damaged, the batches come from another replica that has the same history there.
Composing reads headers of batches at most; nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.files import FileRange
from storage.record.layout import NO_LEADER_EPOCH
from storage.segment.names import parse_name
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.log.epochs import EpochStart
    from storage.replicas.order import Run
    from storage.replicas.scan import Replica


class OffsetRange(NamedTuple):
    """The offsets from `begin` up to `end`."""

    begin: int
    end: int


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
    def size_bytes(self) -> int:
        """The size of the segments."""
        return sum(each.size_bytes for segment in self.segments for each in segment.ranges)


def compose(replicas: Sequence[Replica], start_offset: int = 0) -> Composition:
    """Compose the log of a partition that begins at the offset, or where the chosen replica does if that is later."""
    chosen = max(replicas, key=lambda each: (each.last_epoch, each.end_offset, -len(each.damages)))
    others = sorted(
        (each for each in replicas if each is not chosen), key=lambda each: (-each.last_epoch, -each.end_offset)
    )
    making = _Making(chosen, others)
    making.make()
    divergences = [
        Divergence(OffsetRange(common, other.end_offset), other)
        for other in others
        if (common := common_end(chosen, other)) < other.end_offset
    ]
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


class _Making:
    """A log being composed, from its first segment on."""

    def __init__(self, chosen: Replica, others: Sequence[Replica]) -> None:
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
            reasons: list[str] = []
            while damages and damages[0].offset <= run.first_offset:
                reasons.append(damages.pop(0).reason)
            if reasons and run.first_offset > self.next_offset:
                self._fill(run, reasons[0])
            if self._is_ended:
                return
            self._add(run.base_offset, FileRange(chosen.directory, run.name, run.begin, run.end), chosen)
            self.next_offset = run.next_offset
        # No other replica goes on in the same history: it would be the longest, and chosen.
        if damages:
            self.gaps.append(Gap(OffsetRange(self.next_offset, self.next_offset), damages[0].reason))

    def _fill(self, following: Run, reason: str) -> None:
        """Take the batches from the next offset up to a run of the chosen replica from others."""
        home = following.base_offset if following.base_offset <= self.next_offset else self._damaged_segment()
        for other in self._others:
            begin, bound = self.next_offset, min(following.first_offset, common_end(self._chosen, other))
            for piece, run, next_offset in _pieces(other, begin, bound):
                self._add(max(run.base_offset, self.next_offset) if home is None else home, piece, other)
                self.next_offset = next_offset
            if self.next_offset > begin:
                self.filled.append(Filled(OffsetRange(begin, self.next_offset), other))
            if other.late_offset is not None and other.late_offset == self.next_offset < following.first_offset:
                self._is_ended = True
                return
        if self.next_offset < following.first_offset:
            self.gaps.append(Gap(OffsetRange(self.next_offset, following.first_offset), reason))

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


def _pieces(replica: Replica, begin: int, end: int) -> Iterator[tuple[FileRange, Run, int]]:
    """Yield the bytes of a replica's batches that lie between two offsets, with the offset after each piece."""
    for run in replica.runs:
        if run.next_offset <= begin or run.first_offset >= end:
            continue
        if begin <= run.first_offset and run.next_offset <= end:
            yield FileRange(replica.directory, run.name, run.begin, run.end), run, run.next_offset
            continue
        with replica.directory.open_reading(run.name) as file:
            inside = [
                (batch.position, batch.position + batch.size_bytes, batch.last_offset + 1)
                for batch in LogScan(file, start=run.begin, end=run.end)
                if batch.read_first_offset() >= begin and batch.last_offset < end
            ]
        if inside:
            yield FileRange(replica.directory, run.name, inside[0][0], inside[-1][1]), run, inside[-1][2]
