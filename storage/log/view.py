"""A log as it was at one moment, for reading.

A `LogView` never changes, so its reader takes no locks and holds no writer up. It does not show later appends. It keeps
segments that are deleted or replaced later until their files are removed. Opening one then raises `FileNotFoundError`,
upon which `ReadableLog` reads from a newer view.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum, IntEnum
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from storage.errors import ChecksumError, CorruptBatchError, OffsetOutOfRangeError
from storage.log.aborted_batches import AbortedBatches
from storage.log.confirmed_aborts import check_aborts
from storage.log.many_segments import TimeReach, check_may_go_through, one_by_one
from storage.offset_text import offsets_text
from storage.record.layout import NO_LEADER_EPOCH, NO_TIMESTAMP
from storage.segment.names import Kind
from storage.segment.scan import WINDOW_BYTES
from storage.segment.segment import LOOKUP_WINDOW_BYTES, TimestampAndOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.files import Directory
    from storage.log.index_cache import IndexCache
    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction
    from storage.segment.segment import Segment

T = TypeVar("T")

DEFAULT_READ_BYTES: Final = 1024 * 1024


class Isolation(Enum):
    """The records of transactions that a reader sees."""

    UNCOMMITTED = "read_uncommitted"  # everything
    COMMITTED = "read_committed"  # no aborted record, and none from the first open transaction on


class SpecialTimestamp(IntEnum):
    """The numbers that `list_offset` takes in place of a timestamp."""

    LATEST = -1  # the end offset, or the last stable offset at `COMMITTED`
    EARLIEST = -2
    LARGEST = -3  # the record with the largest timestamp
    EARLIEST_LOCAL = -4  # the earliest on this disk
    LATEST_TIERED = -5  # the latest in tiered storage, of which there is none


class FetchResult(NamedTuple):
    """Whole batches with right checksums, in the order of their offsets, and the transactions that are left out.

    The first batch may begin below the requested offset. Control batches are included. `next_offset` is where to go
    on, even if all batches read were left out.
    """

    batches: list[Batch]
    next_offset: int
    aborted: list[AbortedTransaction]


class StableState(NamedTuple):
    """The offset up to which a view's transactions are decided, and aborted ones that indexes may not have yet."""

    last_stable_offset: int
    aborted: Sequence[AbortedTransaction] = ()


class SegmentSlice(NamedTuple):
    """A segment as far as it is part of a view: to the position `end` (None: its own end), below `end_offset`."""

    segment: Segment
    end: int | None
    end_offset: int


class LogView:
    """The offsets from `start_offset` up to `end_offset`, which is excluded, and the segments that hold them.

    `end_position` is where the last segment's batches end. After a compaction offsets may be missing anywhere.
    `decided` is called only where transactions matter. `cuts` are the offsets at which the log was truncated since it
    was opened, oldest first. Views with equally many cuts find the same batch at an offset of a segment.
    """

    __slots__ = ("_decided", "_recent", "_time_reach", "cuts", "end_offset", "end_position", "segments", "start_offset")

    def __init__(
        self,
        segments: tuple[Segment, ...],
        start_offset: int,
        end_offset: int,
        end_position: int,
        decided: Callable[[], StableState],
        recent: IndexCache,
        *,
        cuts: tuple[int, ...] = (),
    ) -> None:
        self.segments = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.end_position = end_position
        self._decided = decided
        self._recent = recent
        self._time_reach: TimeReach | None = None
        self.cuts = cuts

    @property
    def directory(self) -> Directory | None:
        """The directory that has the segments, None without any."""
        return self.segments[-1].directory if self.segments else None

    @property
    def truncations(self) -> int:
        """The number of truncations since the log was opened."""
        return len(self.cuts)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided."""
        return self._decided().last_stable_offset

    @property
    def bases(self) -> tuple[int, ...]:
        """The base offsets of the segments."""
        return tuple(segment.base_offset for segment in self.segments)

    def rolled(self, closed: Segment, active: Segment) -> LogView:
        """Return the view after a roll: the last segment is this closed one, and an empty one follows it."""
        return LogView(
            (*self.segments[:-1], closed, active),
            self.start_offset,
            self.end_offset,
            0,
            self._decided,
            self._recent,
            cuts=self.cuts,
        )

    def bound(self, isolation: Isolation) -> int:
        """Return the offset up to which a reader may read."""
        return self.end_offset if isolation is Isolation.UNCOMMITTED else self.last_stable_offset

    def read(
        self, offset: int, *, max_bytes: int = DEFAULT_READ_BYTES, isolation: Isolation = Isolation.UNCOMMITTED
    ) -> FetchResult:
        """Read batches from the one that holds the offset on: at least one if there is one, then up to `max_bytes`.

        Their checksums are right. At `COMMITTED` batches of aborted transactions are left out, but count as read.
        Raises `OffsetOutOfRangeError` below the log's start and above its end. Reading ends before damage, a wrong
        checksum included, and raises the damage if no batch lies before it. Memory stays within the larger of
        `max_bytes` and a batch, and a window.
        """
        self._check_offset(offset)
        bound = self.bound(isolation)
        batches: list[Batch] = []
        left_bytes = max_bytes
        try:
            for batch in self._batches(offset, min(max(max_bytes, LOOKUP_WINDOW_BYTES), WINDOW_BYTES)):
                left_bytes -= batch.size_bytes
                if batch.base_offset >= bound or (batches and left_bytes < 0):
                    break
                self._check(batch)
                batches.append(batch)
                if left_bytes <= 0:
                    break
        except CorruptBatchError:
            if not batches:
                raise
        next_offset = batches[-1].last_offset + 1 if batches else max(offset, bound)
        aborted: list[AbortedTransaction] = []
        if batches and isolation is Isolation.COMMITTED:
            aborted = self.aborted(offset, next_offset)
            left_out = AbortedBatches(aborted)
            batches = [batch for batch in batches if batch.is_control or not left_out.has(batch)]
        return FetchResult(batches, next_offset, aborted)

    def batches(self, offset: int) -> Iterator[Batch]:
        """Iterate over all batches from the one that holds the offset on, in bounded memory.

        Checksums are not checked: the caller that decodes the batches checks many at a time.
        """
        self._check_offset(offset)
        return self._batches(offset, WINDOW_BYTES)

    def find(self, offset: int) -> Batch | None:
        """Return the first batch whose last offset is not below the offset. Its checksum is not checked."""
        segments, recent = self.segments, self._recent
        for index in one_by_one(range(self._index_of(offset), len(segments))):
            segment = recent.use(segments[index])
            end = None if index + 1 < len(segments) else self.end_position
            found = segment.find(offset, end, holds_log=recent.holds_logs)
            if found is not None:
                return found
            segment.check_end(end)
        return None

    def aborted(self, offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the offsets from `offset` up to the bound, which is excluded.

        Raises `CorruptIndexError` if the log contradicts an entry of a transaction index.
        """
        stable = self._decided()
        found = {
            transaction.last_offset: transaction
            for transaction in stable.aborted
            if transaction.last_offset >= offset and transaction.first_offset < upper_bound_offset
        }
        for part in self.slices(offset):
            check_aborts(part.segment, part.end_offset, self.find, stable.last_stable_offset)
            some, are_all = part.segment.transaction_index.aborted(offset, upper_bound_offset)
            found.update((transaction.last_offset, transaction) for transaction in some)
            if are_all:
                break
        # A transaction aborted after this view was made is not decided in it: it lies after the last stable offset.
        return [found[last_offset] for last_offset in sorted(found) if last_offset < self.end_offset]

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record whose timestamp is not below this one, which is not negative; None if there is none.

        It is found by Kafka's indexes, in the first segment that has such a record at or above the log's start. All
        others are passed over, also those without any record, in which a broker's own lookup may end: see
        `list_offset`. Raises `CorruptBatchError` if none is found but damage may hide one.
        """
        if self._time_reach is None:
            self._time_reach = TimeReach(self.segments)
        for segment in self._time_reach.candidates(timestamp):
            self._recent.use(segment)
            found = segment.find_timestamp(timestamp, self.start_offset, self._end_of(segment))
            if found is not None:
                return found
        for segment in one_by_one(self.segments):
            segment.check_end(self._end_of(segment))
        return None

    def list_offset(self, timestamp: int, *, isolation: Isolation = Isolation.UNCOMMITTED) -> TimestampAndOffset | None:
        """Return what a broker with these files answers to a ListOffsets request, as `kafka-get-offsets --time` does.

        Negative numbers are `SpecialTimestamp`s. For any other, a broker looks only into the first segment whose
        largest timestamp is not below it. Where a segment has no timestamp, as the empty ones that a log cleaner
        leaves, the broker takes the file's last modification instead. So it may find nothing although a later segment
        has such a record, which `find_timestamp` returns.
        """
        match timestamp:
            case SpecialTimestamp.LATEST:
                return TimestampAndOffset(self.bound(isolation), NO_TIMESTAMP, NO_LEADER_EPOCH)
            case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
                return TimestampAndOffset(self.start_offset, NO_TIMESTAMP, NO_LEADER_EPOCH)
            case SpecialTimestamp.LATEST_TIERED:
                return TimestampAndOffset(-1, NO_TIMESTAMP, NO_LEADER_EPOCH)
            case SpecialTimestamp.LARGEST:
                segment = max(one_by_one(self.segments), key=lambda segment: segment.largest_timestamp[0], default=None)
                if segment is None:
                    return None
                return self._recent.use(segment).find_largest_timestamp(self._end_of(segment))
        for segment in one_by_one(self.segments):
            if segment.age_timestamp >= timestamp:
                self._recent.use(segment)
                return segment.find_timestamp(timestamp, self.start_offset, self._end_of(segment))
        return None

    def segment_of(self, offset: int) -> Segment | None:
        """Return the segment that the offset is in, or would be; None if there are no segments."""
        return self.segments[self._index_of(offset)] if self.segments else None

    def check_may_go_through(self) -> None:
        """Raise `MustWaitError` if the view has many segments, and this thread may do nothing that takes long.

        A caller that is about to write does not ask: it must not be interrupted.
        """
        check_may_go_through(len(self.segments))

    def slices(self, offset: int) -> Iterator[SegmentSlice]:
        """Iterate over the segments from the one that the offset is in, or would be."""
        first = self._index_of(offset)
        for following, segment in enumerate(one_by_one(islice(self.segments, first, None)), first + 1):
            is_last = following == len(self.segments)
            yield SegmentSlice(
                self._recent.use(segment),
                self.end_position if is_last else None,
                self.end_offset if is_last else self.segments[following].base_offset,
            )

    def _batches(self, offset: int, window_bytes: int) -> Iterator[Batch]:
        for segment, end, _ in self.slices(offset):
            yield from segment.batches_from(offset, end, window_bytes=window_bytes)
            segment.check_end(end)

    def _check(self, batch: Batch) -> None:
        """Raise `ChecksumError`, with the file's path, if the batch has a wrong checksum."""
        try:
            batch.check_crc()
        except ChecksumError as error:
            segment = self.segment_of(batch.last_offset)
            raise error.located(path=None if segment is None else segment.path(Kind.LOG)) from None

    def _index_of(self, offset: int) -> int:
        """Return the index of the segment that the offset is in, or would be."""
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    def _end_of(self, segment: Segment) -> int | None:
        return self.end_position if segment is self.segments[-1] else None

    def _check_offset(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"the log has {offsets_text(self.start_offset, self.end_offset)}", offset=offset
            )


_base_offset = attrgetter("base_offset")
