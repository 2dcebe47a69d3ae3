"""A range of a log cut into splits, each to be read by itself, on another machine and at another time.

A `Split` has its own positions, so a reader lists no directory and opens no index. It is bounded by offsets, to the
record; the positions say where to find them, and its header bytes tell if they still hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from storage.errors import CorruptBatchError, RecordsCutOffError, RecordsGoneError
from storage.log.view import Isolation
from storage.log_dir.names import DirectoryName
from storage.offset_text import offsets_text
from storage.record.layout import BATCH_HEADER_BYTES
from storage.segment.names import Kind
from storage.segment.scan import LogScan
from storage.segment.segment import LOOKUP_WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from storage.log.readable_log import ReadableLog
    from storage.log.view import LogView, SegmentSlice
    from storage.segment.index.entries import AbortedTransaction

    OnLoss: TypeAlias = Callable[[RecordsGoneError], None]

DEFAULT_SPLIT_BYTES: Final = 32 * 1024 * 1024
"""The least size of a split at which the cost of beginning one does not matter."""


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


Piece = TypeVar("Piece", bound=_Sized)

_TRIES: Final = 4  # index entries to try for a sound batch to cut at


class PartitionPlace(NamedTuple):
    """A partition, and its log directory."""

    log_dir: str
    topic: str
    partition: int

    @property
    def directory(self) -> Path:
        """The path of the partition's directory."""
        return Path(self.log_dir) / str(DirectoryName(self.topic, self.partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Split:
    """The records from `start_offset` up to `end_offset`, which is excluded, that one segment has of a partition.

    They are in the batches from the position `start` up to `end`, all of which end below `limit_offset`. That holds as
    long as the file has the bytes `header` at `start` and `following` at `end`, and a closed segment's log is still
    `log_bytes` long. `following` is empty if the split ends with its segment. Readers leave out the records of the
    transactions in `aborted`; if the split `is_committed`, those are all that were aborted.
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
    is_committed: bool = False

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return self.end - self.start

    @property
    def path(self) -> Path:
        """The segment's log."""
        return self.place.directory / self.log_name


class _Cut(NamedTuple):
    """A sound batch at which one split may end and the next begin."""

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
    """Cut a range of the log as it is now, in order, into splits of `size_bytes` or more if their segments have that.

    Together they have every record of the range that the log has. `on_loss` is called with what the log no longer has
    at either end; unless that raises, the range is shorter by so much. With `checks_end`, damage after which a range
    that goes up to the end might continue is a `FramingError`.
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
    """Group splits, or other pieces, in their order, into packs of this size or more."""
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
    """Return the part of the range that the view has."""
    if start < min(view.start_offset, end):
        gone = min(view.start_offset, end)
        on_loss(
            RecordsGoneError(
                f"records of {place} are gone: {offsets_text(start, gone)}; the log begins at {view.start_offset}",
                path=place.directory,
            )
        )
        start = gone
    kept_end = max(view.end_offset, start)
    if kept_end < end:
        on_loss(
            RecordsCutOffError(
                f"{place} has nothing at {offsets_text(kept_end, end)}: its next offset is {view.end_offset}",
                path=place.directory,
            )
        )
        end = kept_end
    return start, end


class _SegmentCutter:
    """Cuts one segment of a view."""

    def __init__(self, view: LogView, place: PartitionPlace, part: SegmentSlice, isolation: Isolation) -> None:
        self._view = view
        self._place = place
        self._segment, end, self._end_offset = part
        self._isolation = isolation
        self._path = self._segment.path(Kind.LOG)
        # Bytes after the batches of a closed segment are damage, which the reader has to report.
        with self._segment.open_log() as file:
            self._end = file.size_bytes() if end is None else end
        self._log_bytes = self._end if end is None else None

    def splits(self, start_offset: int, end_offset: int, size_bytes: int) -> Iterator[Split]:
        """Yield the splits of the segment's part of the range."""
        start_offset = max(start_offset, self._segment.base_offset)
        first = self._position_before(start_offset)
        last = self._cut_after(end_offset)
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
            self._segment.name(Kind.LOG),
            self._log_bytes,
            begin.offset,
            end_offset,
            limit_offset,
            begin.position,
            end,
            begin.header,
            following,
            aborted,
            self._isolation is Isolation.COMMITTED,
        )

    def _position_before(self, offset: int) -> int:
        """Return the position of a batch before which all offsets are below this one."""
        if offset > self._segment.base_offset:
            try:
                for batch in self._segment.batches_near(offset, self._end):
                    return batch.position
            except CorruptBatchError:
                pass  # a reader from the beginning finds it
        return 0

    def _cut_after(self, offset: int) -> _Cut | None:
        """Return the first cut from which on no offset is below this one; None if none is known."""
        if offset >= self._end_offset:
            return None
        return self._cut_from(offset, 1, self._end)

    def _cuts(self, start: int, start_offset: int, end: int, end_offset: int, size_bytes: int) -> Iterator[_Cut]:
        """Yield cuts that divide the batches between two positions into parts of about the same size."""
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
        """Return the first sound batch that an index entry leads to, at or above an offset and a position."""
        index = self._segment.offset_index
        low = offset
        for _ in range(_TRIES):
            high = self._end_offset
            while low < high:
                # Entries ascend in both, so bisect.
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
