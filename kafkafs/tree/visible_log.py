"""A log at one moment as a consumer sees it: records alone, and of one isolation level.

Control records are not visible; with `read_committed`, neither are aborted records nor those from the last stable
offset on. A batch is damaged if its checksum, its frame or its records are wrong. A segment that was removed before it
is read raises `FileNotFoundError`; the caller retries with a newer view.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from kafkafs.tree.errors import damaged
from kafkafs.tree.held_batch import HeldBatch, decode
from kafkafs.tree.options import Damage
from kafkafs.tree.visible_batches import SkimmedBatch, VisibleBatch, extent_of, has_all_offsets
from kafkafs.tree.visible_runs import Gathering
from storage.errors import CorruptBatchError, DecompressedTooLargeError, forget_frames
from storage.log import AbortedBatches, Isolation, batches_past_damage
from storage.segment import LOOKUP_WINDOW_BYTES, WINDOW_BYTES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkafs.content.patience import Patience
    from kafkafs.tree.batch_cache import BatchCache
    from kafkafs.tree.errors import DamagedError
    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.visible_runs import VisibleRun
    from storage.log import LogView
    from storage.record import Batch, Record
    from storage.segment import Segment
    from storage.segment.index import AbortedTransaction

_FROM_ENDS_MAX: Final = 16  # answers that are kept
_FEW_OFFSETS: Final = 64  # what is likely to be in a batch or two


class Found(NamedTuple):
    """A record and its place, and about how much memory its decoded batch takes."""

    record: Record
    batch: Batch
    segment: Segment
    held_bytes: int


class VisibleLog:
    """The visible part of a view: offsets from `start_offset` up to `end_offset`, which is excluded.

    Damage raises a `DamagedError`, logged once for each cache. If the options skip damage, runs of records go on after
    it. Nodes that show this log have its `identity`. Any thread may use this.
    """

    __slots__ = (
        "_aborted_in",
        "_cache",
        "_from_ends",
        "_options",
        "_skipped",
        "_skips",
        "_too_large",
        "end_offset",
        "identity",
        "is_committed",
        "start_offset",
        "view",
    )

    def __init__(self, view: LogView, options: TreeOptions, cache: BatchCache, *, identity: int) -> None:
        self.view = view
        self.identity = identity
        self.start_offset = view.start_offset
        self.end_offset = max(view.bound(options.isolation), view.start_offset)
        self._options = options
        self.is_committed = options.isolation is Isolation.COMMITTED
        self._skips = options.damage is Damage.SKIP
        # Made when they are needed, as there is a view for each log.
        self._skipped: set[tuple[str | None, int | None]] | None = None
        self._cache = cache
        self._too_large: dict[tuple[Segment, int], DecompressedTooLargeError] | None = None
        self._from_ends: dict[int, int | None] | None = None
        self._aborted_in: dict[Segment, Sequence[AbortedTransaction]] = {}

    def fresh_copy(self) -> VisibleLog:
        """Return a copy that has read nothing yet."""
        return VisibleLog(self.view, self._options, self._cache, identity=self.identity)

    def know_aborted(self, segment: Segment) -> None:
        """Load a segment's aborted transactions, so that it can be read after its indexes are removed."""
        if self.is_committed and segment not in self._aborted_in:
            self._aborted_in[segment] = self.view.aborted(*_extent(self.view, segment, self.end_offset))

    @property
    def skipped(self) -> int:
        """Return how many damaged places were left out so far."""
        return 0 if self._skipped is None else len(self._skipped)

    def find(self, offset: int) -> Found | None:
        """The visible record at an offset; None if there is none.

        Damage is never skipped: raises `DamagedError` if its batch is damaged, or damage may have had it.
        """
        view = self.view
        if not self.start_offset <= offset < self.end_offset:
            return None
        segment = view.segment_of(offset)
        if segment is None:
            return None
        held = self._cache.get(segment, view.truncations, offset)
        if held is None:
            held = self._read(offset)
            if held is None:
                return None
            if held.segment is segment:
                self._cache.put(held, view.truncations)
        record = held.find(offset)
        return None if record is None else Found(record, held.batch, held.segment, held.size_bytes)

    def batches(self, start: int, end: int) -> Iterator[VisibleBatch]:
        """The batches that have visible records from `start` up to `end`, which is excluded, cut to what exists.

        Up to the log's very end, damage after the last record counts as well.
        """
        return self._batches(start, end, to_tail=self._is_to_tail(end))

    def runs(self, start: int, end: int) -> Iterator[VisibleRun | VisibleBatch]:
        """Iterate over the same batches in runs that are not decoded yet; a batch that is cut comes by itself."""
        start, end_offset = max(start, self.start_offset), min(end, self.end_offset)
        gathering = Gathering()
        try:
            for segment, piece in self._found(start, end_offset, to_tail=self._is_to_tail(end)):
                if isinstance(piece, CorruptBatchError):
                    yield from gathering.take()
                    self.pass_over(piece)
                elif piece.starts_at_or_after(start) and piece.last_offset < end_offset:
                    yield from gathering.add(segment, piece)
                else:
                    yield from gathering.take()
                    decoded = self._decoded(segment, piece, start, end_offset)
                    if isinstance(decoded, CorruptBatchError):
                        self.pass_over(decoded)
                    elif decoded is not None:
                        yield decoded
        except Exception:
            yield from gathering.take()
            raise
        yield from gathering.take()

    def records(self, start: int, end: int) -> Iterator[Record]:
        """The visible records from `start` up to `end`, which is excluded."""
        batches = self.batches(start, end)
        while batch := next(batches, None):
            records = iter(batch.records)
            del batch  # so that one batch at a time is decoded
            yield from records

    def skimmed(self, start: int, end: int, patience: Patience) -> Iterator[VisibleBatch | SkimmedBatch]:
        """The same batches; once the patience is over, those of which each offset has a record are not decoded."""
        return self._batches(start, end, to_tail=self._is_to_tail(end), patience=patience)

    def from_end(self, count: int, patience: Patience | None = None) -> int | None:
        """The offset of the `count`-th visible record from the end; None if there are fewer.

        It reads about as much as lies from there on. Only damage after it raises. Once the patience is over it trusts
        headers, as `skimmed` does.
        """
        if self._from_ends is None:
            self._from_ends = {}
        if count not in self._from_ends:
            offset = self._count_from_end(count, patience)
            if patience is not None and patience.is_over:
                return offset
            if len(self._from_ends) == _FROM_ENDS_MAX:
                self._from_ends.clear()
            self._from_ends[count] = offset
        return self._from_ends[count]

    def _count_from_end(self, count: int, patience: Patience | None) -> int | None:
        end, width = self.end_offset, count  # a few batches may take long to decode
        while end > self.start_offset:
            start = max(end - width, self.start_offset)
            counts, firsts, lasts = array("q"), array("q"), array("q")  # of each batch, and the offsets
            damage: list[CorruptBatchError] = []
            for piece in self._pieces(start, end, patience=patience):
                if isinstance(piece, CorruptBatchError):
                    damage.append(piece)
                for numbers, number in zip((counts, firsts, lasts), extent_of(piece), strict=True):
                    numbers.append(number)
            for in_batch, first, last in zip(reversed(counts), reversed(firsts), reversed(lasts), strict=True):
                if in_batch == 0:
                    self.pass_over(damage.pop())
                elif count > in_batch:
                    count -= in_batch
                elif in_batch == last - first + 1:
                    return last + 1 - count
                else:
                    batch = next(self._batches(first, end, to_tail=False))
                    return batch.records[in_batch - count].offset
            end, width = start, max(width * 2, _FEW_OFFSETS)
        return None

    def find_timestamp(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first visible record from the first on whose time is not before this one.

        Records after it may have earlier times.
        """
        try:
            timed = self.view.find_timestamp(timestamp_ms)
        except CorruptBatchError as error:
            self.pass_over(error)
            offsets = (each.offset for each in self._from_start() if each.timestamp >= timestamp_ms)
        else:
            if timed is None:
                return None
            offsets = (each.offset for each in self._records(timed.offset))
        return next(offsets, None)

    def _from_start(self) -> Iterator[Record]:
        return self._records(self.start_offset)

    def _records(self, start: int) -> Iterator[Record]:
        for batch in self._batches(start, self.end_offset, to_tail=False):
            yield from batch.records

    def _read(self, offset: int) -> HeldBatch | None:
        """The batch that has the offset, or would have it."""
        for segment, piece in batches_past_damage(self.view, offset, window_bytes=LOOKUP_WINDOW_BYTES):
            if isinstance(piece, CorruptBatchError):
                raise self._damaged(piece)
            if piece.starts_at_or_after(offset + 1):
                return None
            try:
                return HeldBatch(piece, segment, is_visible=self._is_visible(piece))
            except CorruptBatchError as error:
                raise self._damaged(error.located(path=segment.path(Kind.LOG))) from None
        return None

    def _is_visible(self, batch: Batch) -> bool:
        if batch.is_control:
            return False
        if not self.is_committed or not batch.is_transactional:
            return True
        return not AbortedBatches(self.view.aborted(batch.base_offset, batch.last_offset + 1)).has(batch)

    @overload
    def _batches(self, start: int, end: int, *, to_tail: bool) -> Iterator[VisibleBatch]: ...
    @overload
    def _batches(
        self, start: int, end: int, *, to_tail: bool, patience: Patience | None
    ) -> Iterator[VisibleBatch | SkimmedBatch]: ...
    def _batches(
        self, start: int, end: int, *, to_tail: bool, patience: Patience | None = None
    ) -> Iterator[VisibleBatch | SkimmedBatch]:
        for piece in self._pieces(start, end, to_tail=to_tail, patience=patience):
            if isinstance(piece, CorruptBatchError):
                self.pass_over(piece)
            else:
                yield piece

    def _pieces(
        self, start: int, end: int, *, to_tail: bool = False, patience: Patience | None = None
    ) -> Iterator[VisibleBatch | SkimmedBatch | CorruptBatchError]:
        """The batches that have visible records, and the damage among them."""
        start, end = max(start, self.start_offset), min(end, self.end_offset)
        for segment, piece in self._found(start, end, to_tail=to_tail):
            found: VisibleBatch | SkimmedBatch | CorruptBatchError | None
            if isinstance(piece, CorruptBatchError):
                found = piece
            elif patience is not None and patience.is_over and has_all_offsets(piece):
                found = SkimmedBatch(range(max(piece.base_offset, start), min(piece.last_offset + 1, end)))
            else:
                found = self._decoded(segment, piece, start, end)
            if found is not None:
                yield found

    def _found(self, start: int, end: int, *, to_tail: bool) -> Iterator[tuple[Segment, Batch | CorruptBatchError]]:
        """The batches that may have visible records, and the damage among them."""
        if start > end or (start == end and not to_tail):
            return
        window_bytes = LOOKUP_WINDOW_BYTES if end - start <= _FEW_OFFSETS else WINDOW_BYTES
        aborted = _Aborted(self.view, end, self._aborted_in) if self.is_committed else None
        before = None if to_tail else end
        for segment, piece in batches_past_damage(self.view, start, before=before, window_bytes=window_bytes):
            if isinstance(piece, CorruptBatchError):
                yield segment, piece
                continue
            if piece.starts_at_or_after(end):
                return
            if not piece.is_control and not (aborted and aborted.has(piece, segment)):
                yield segment, piece
            if piece.last_offset >= end - 1 and not to_tail:
                return

    def _decoded(self, segment: Segment, batch: Batch, start: int, end: int) -> VisibleBatch | CorruptBatchError | None:
        """Return the batch with its records of the range, None if it has none, or why it does not decode.

        That a batch is too large takes long to find out, and is remembered.
        """
        place = (segment, batch.position)
        if self._too_large is not None and place in self._too_large:
            return self._too_large[place]
        try:
            records = _between(decode(batch).records, start, end)
        except CorruptBatchError as error:
            forget_frames(error)
            if isinstance(error, DecompressedTooLargeError):
                if self._too_large is None:
                    self._too_large = {}
                self._too_large[place] = error
            return error.located(path=segment.path(Kind.LOG))
        return VisibleBatch(batch, segment, records) if records else None

    def _is_to_tail(self, end: int) -> bool:
        return end >= self.view.end_offset == self.end_offset

    def pass_over(self, error: CorruptBatchError) -> None:
        """Log the damage, and raise it as `DamagedError` unless damage is skipped."""
        self._cache.report(error)
        if not self._skips:
            raise damaged(error)  # in no variable: the error and this frame would keep each other
        self._skipped = self._skipped or set()
        self._skipped.add((error.path, error.position))

    def _damaged(self, error: CorruptBatchError) -> DamagedError:
        self._cache.report(error)
        return damaged(error)


def _between(records: Sequence[Record], start: int, end: int) -> Sequence[Record]:
    """The records from `start` up to `end`."""
    if records and start <= records[0].offset and records[-1].offset < end:
        return records
    return [record for record in records if start <= record.offset < end]


class _Aborted:
    """The aborted batches of a view up to an offset, found out segment by segment."""

    def __init__(self, view: LogView, end: int, known: Mapping[Segment, Sequence[AbortedTransaction]]) -> None:
        self._view = view
        self._end = end
        self._known = known
        self._segment: Segment | None = None
        self._batches = AbortedBatches(())

    def has(self, batch: Batch, segment: Segment) -> bool:
        if segment is not self._segment:
            known = self._known.get(segment)
            if known is None:
                known = self._view.aborted(*_extent(self._view, segment, self._end))
            self._segment = segment
            self._batches = AbortedBatches(known)
        return self._batches.has(batch)


def _extent(view: LogView, segment: Segment, end: int) -> tuple[int, int]:
    """The offsets of a segment, as far as they are below the end."""
    following = view.segments.index(segment) + 1
    is_last = following == len(view.segments)
    return segment.base_offset, end if is_last else min(end, view.segments[following].base_offset)
