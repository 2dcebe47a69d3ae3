"""Cutting a range of a log into pieces that can be read each by itself, on another machine and at another time.

A `Split` says where it lies, so whoever reads one lists no directory and looks into no index. It is bounded by offsets,
to the record; its positions say where to find them, and it says how to tell that they still hold. Reading is left to
`split_reading`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from storage.errors import CorruptBatchError, RecordsGoneError
from storage.log.view import Isolation
from storage.log_dir.names import DirectoryName
from storage.record.layout import BATCH_HEADER_BYTES
from storage.segment.names import Kind
from storage.segment.scan import LogScan
from storage.segment.segment import LOOKUP_WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from storage.log.readable_log import ReadableLog
    from storage.log.view import LogView, SegmentSlice
    from storage.segment.index.txn import AbortedTransaction

    OnLoss: TypeAlias = Callable[[RecordsGoneError], None]

DEFAULT_SPLIT_BYTES: Final = 32 * 1024 * 1024
"""The least that a split should hold, so that what it takes to begin one does not matter."""


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


Piece = TypeVar("Piece", bound=_Sized)

_TRIES: Final = 4  # index entries that are looked at for a sound batch to cut at


class PartitionPlace(NamedTuple):
    """A partition, and the log directory that it is in."""

    log_dir: str
    topic: str
    partition: int

    @property
    def directory(self) -> Path:
        """Where its segments are."""
        return Path(self.log_dir) / str(DirectoryName(self.topic, self.partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Split:
    """The records from `start_offset` up to `end_offset`, which is excluded, that one segment has of a partition.

    They are in the batches from the position `start` up to `end`, all of which end below `limit_offset`. That holds as
    long as `header` is what stands at `start` and `following` what stands at `end`, and a log to which nothing is added
    any more is still `log_bytes` long. `following` is empty where the split ends with its segment. `aborted` are the
    transactions whose records are to be left out.
    """

    place: PartitionPlace
    base_offset: int
    log_name: str
    log_bytes: int | None
    start_offset: int
    end_offset: int
    limit_offset: int
    start: int
    end: int
    header: bytes
    following: bytes
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size_bytes(self) -> int:
        """How much there is to be read."""
        return self.end - self.start

    @property
    def path(self) -> Path:
        """The segment's log."""
        return self.place.directory / self.log_name


class _Cut(NamedTuple):
    """A place where one split may end and the next begin: a sound batch."""

    position: int
    offset: int
    header: bytes


def splits_of(
    log: ReadableLog,
    place: PartitionPlace,
    start_offset: int,
    end_offset: int,
    *,
    size_bytes: int = DEFAULT_SPLIT_BYTES,
    isolation: Isolation = Isolation.UNCOMMITTED,
    checks_end: bool = True,
    on_loss: OnLoss,
) -> list[Split]:
    """The splits of a range of the log as it is now, in order; each has `size_bytes` or more if its segment has.

    Together they have every record of the range that the log has. What it does not have any more in front, or at its
    end, is told to `on_loss`; if that does not raise, the range is shorter by so much. With `checks_end`, damage after
    which a range that goes up to the end might go on is a `FramingError`.
    """

    def cut(view: LogView) -> list[Split]:
        start, end = _within(view, place, start_offset, end_offset, on_loss)
        if checks_end and end >= view.bound(isolation) and view.segments:
            view.segments[-1].check_end(view.end_position)
        return [
            split
            for part in (view.slices(start) if start < end else ())
            if part.segment.base_offset < end
            for split in _SegmentCutter(view, place, part, isolation).splits(start, end, size_bytes)
        ]

    return log.on_view(cut)


def packed(pieces: Iterable[Piece], size_bytes: int = DEFAULT_SPLIT_BYTES) -> list[tuple[Piece, ...]]:
    """Splits, or pieces of another kind, in their order, so many together that it is worth while to begin with them."""
    packs: list[tuple[Piece, ...]] = []
    pack: list[Piece] = []
    pack_bytes = 0
    for piece in pieces:
        pack.append(piece)
        pack_bytes += piece.size_bytes
        if pack_bytes >= size_bytes:
            packs.append(tuple(pack))
            pack, pack_bytes = [], 0
    return [*packs, tuple(pack)] if pack else packs


def _within(view: LogView, place: PartitionPlace, start: int, end: int, on_loss: OnLoss) -> tuple[int, int]:
    """The part of the range that the view has."""
    if start < min(view.start_offset, end):
        gone = min(view.start_offset, end)
        on_loss(
            RecordsGoneError(
                f"the records of {place} from offset {start} up to {gone} are gone: the log begins at "
                f"{view.start_offset}",
                path=place.directory,
            )
        )
        start = gone
    if max(view.end_offset, start) < end:
        on_loss(
            RecordsGoneError(
                f"there are no records of {place} from offset {max(view.end_offset, start)} up to {end}: the log ends "
                f"at {view.end_offset}",
                path=place.directory,
            )
        )
        end = max(view.end_offset, start)
    return start, end


class _SegmentCutter:
    """One segment of a view, cut."""

    def __init__(self, view: LogView, place: PartitionPlace, part: SegmentSlice, isolation: Isolation) -> None:
        self._view = view
        self._place = place
        self._segment, end, self._end_offset = part
        self._isolation = isolation
        self._path = self._segment.path(Kind.LOG)
        # What follows the batches of a closed segment in its file is damage, and whoever reads it has to say so.
        with self._segment.open_log() as file:
            self._end = file.size_bytes() if end is None else end
        self._log_bytes = self._end if end is None else None

    def splits(self, start_offset: int, end_offset: int, size_bytes: int) -> Iterator[Split]:
        """The splits of what the segment has of the range."""
        start_offset = max(start_offset, self._segment.base_offset)
        first = self._position_before(start_offset)
        last = self._behind(end_offset)
        end, limit_offset = (self._end, self._end_offset) if last is None else last[:2]
        if first >= end:
            return
        cuts = list(self._cuts(first, start_offset, end, min(end_offset, limit_offset), size_bytes))
        with self._segment.open_log() as file:
            header = file.read_at(first, min(BATCH_HEADER_BYTES, end - first))
        begin = _Cut(first, start_offset, header)
        for cut in cuts:
            yield self._split(begin, cut.position, cut.offset, cut.offset, cut.header)
            begin = cut
        following = b"" if last is None else last.header
        yield self._split(begin, end, min(end_offset, limit_offset), limit_offset, following)

    def _split(self, begin: _Cut, end: int, end_offset: int, limit_offset: int, following: bytes) -> Split:
        aborted: tuple[AbortedTransaction, ...] = ()
        if self._isolation is Isolation.COMMITTED:
            aborted = tuple(self._view.aborted(begin.offset, end_offset))
        return Split(
            self._place,
            self._segment.base_offset,
            self._path.name,
            self._log_bytes,
            begin.offset,
            end_offset,
            limit_offset,
            begin.position,
            end,
            begin.header,
            following,
            aborted,
        )

    def _position_before(self, offset: int) -> int:
        """Where a batch begins before which all offsets are below this one."""
        if offset > self._segment.base_offset:
            try:
                for batch in self._segment.batches_near(offset, self._end):
                    return batch.position
            except CorruptBatchError:
                pass  # whoever reads on from the beginning comes upon it
        return 0

    def _behind(self, offset: int) -> _Cut | None:
        """The first place known of where all offsets from there on are not below this one; None without any."""
        if offset >= self._end_offset:
            return None
        return self._cut_from(offset, 1, self._end)

    def _cuts(self, start: int, start_offset: int, end: int, end_offset: int, size_bytes: int) -> Iterator[_Cut]:
        """Places that cut the batches between two positions into parts of about the same size."""
        count = max((end - start) // size_bytes, 1)
        part_bytes = (end - start) // count
        position, offset = start, start_offset
        while position + part_bytes < end:
            cut = self._cut_from(offset + 1, position + part_bytes, end)
            if cut is None or cut.offset >= end_offset or end - cut.position < size_bytes:
                return
            yield cut
            position, offset = cut.position, cut.offset

    def _cut_from(self, offset: int, position: int, end: int) -> _Cut | None:
        """The first sound batch that an index entry leads to, at or above an offset and a position."""
        index = self._segment.offset_index
        low = offset
        for _ in range(_TRIES):
            high = self._end_offset
            while low < high:
                # Entries ascend in both, so the first one is found by halving.
                middle = (low + high) // 2
                entry = index.lookup(middle)
                if entry.offset >= low and entry.position >= position:
                    high = middle
                else:
                    low = middle + 1
            entry = index.lookup(low)
            if low == self._end_offset or not 0 < entry.position < end:
                return None
            cut = self._cut_at(entry.offset, entry.position, offset)
            if cut is not None:
                return cut
            low = entry.offset + 1
        return None

    def _cut_at(self, last_offset_max: int, position: int, offset_min: int) -> _Cut | None:
        try:
            with self._segment.open_log() as file:
                scan = LogScan(file, start=position, end=self._end, window_bytes=LOOKUP_WINDOW_BYTES)
                batch = next(iter(scan), None)
                if batch is None:
                    return None
                batch.check_crc()
                offset = batch.read_first_offset()
        except CorruptBatchError:
            return None
        if not offset_min <= offset <= batch.last_offset <= last_offset_max:
            return None
        return _Cut(position, offset, bytes(batch.view(0, min(batch.size_bytes, BATCH_HEADER_BYTES))))
