"""Reading one partition: which offsets are meant, and what is there, checked and isolated, in bounded memory.

A range is fixed, and cut to what exists, when it is asked for. What it has is read split by split as Spark's tasks read
it, so rolls and compactions meanwhile change nothing, and what is deleted meanwhile is an error and no short read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from kafkafs.library.lookup import records_from
from kafkafs.library.selection import parse_range, parse_times
from kafkafs.locator.offsets import AtOffset, Edge, FromEnd
from storage.errors import CorruptBatchError, StorageError
from storage.log import ReadableLog
from storage.split import SPLIT_WINDOW_BYTES, PartitionPlace, RecordReader, splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from uuid import UUID

    from kafkafs.library.context import Context
    from kafkafs.library.selection import Offsets, Times
    from kafkafs.locator.offsets import Record as RecordName
    from storage.errors import RecordsGoneError
    from storage.log import LogView
    from storage.record import Batch, Record
    from storage.split import Split

    OnLoss: TypeAlias = Callable[[RecordsGoneError], None]
    RecordsOf: TypeAlias = Callable[[Sequence[Batch]], Iterator[list[Record]]]


class LogReader:
    """Reads a partition of an open store; any number of threads may, each its own iterators.

    Where `records_of` is given, it chooses the records of visible batches. For this reader the log then has no others,
    except where a single one is asked for.
    """

    def __init__(self, context: Context, topic: str, partition: int, *, records_of: RecordsOf | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self._context = context
        self._records_of = records_of

    @property
    def log(self) -> ReadableLog:
        """The log as others have left it by now; raises `UnknownPartitionError`, and what opening it raises."""
        self._context.check_process()
        self._context.store.look_again()
        log = self._context.store.log(self.topic, self.partition)
        assert isinstance(log, ReadableLog)
        return log

    @property
    def topic_id(self) -> UUID | None:
        """The id of the topic now; None if it has none, or none that can be read."""
        with suppress(StorageError, OSError):
            return self._context.store.topics.topic_id(self.topic)
        return None

    @property
    def start_offset(self) -> int:
        """Return the log start offset."""
        return self.log.view.start_offset

    @property
    def end_offset(self) -> int:
        """Return this reader's end offset: at `read_committed` the last stable offset."""
        isolation = self._context.isolation
        return self.log.on_view(lambda view: max(view.bound(isolation), view.start_offset))

    # Which offsets

    def range(self, offsets: Offsets | None, times: Times | None) -> tuple[int, int]:
        """The offsets from the first up to the second, excluded, that are meant now; all without either."""
        if offsets is not None and times is not None:
            raise ValueError("give offsets or times, not both")
        if times is not None:
            start_ms, end_ms = parse_times(times).resolve(self._context.clock.now_ms())
            end = self.end_offset
            start = self._first_from(start_ms, end)
            return start, end if end_ms is None else max(start, self._first_from(end_ms, end))
        end = self.end_offset
        start = min(self.start_offset, end)
        if offsets is None:
            return start, end
        return parse_range(offsets).resolve(start, end, lambda count: self._from_end(count, start, end))

    def offset(self, name: RecordName) -> int | None:
        """Return the offset that a record's name means now; None if there is none."""
        end = self.end_offset
        start = min(self.start_offset, end)
        if isinstance(name, FromEnd):
            return self._from_end(name.count, start, end)
        if isinstance(name, AtOffset):
            return name.offset if start <= name.offset < end else None
        first = self.first(start)
        return None if first is None else first.offset

    def at(self, time_ms: int) -> int | None:
        """Return the offset of the first record at or after a time; None without one.

        Damage that hides it is an error.
        """
        found = self.log.find_timestamp(time_ms)
        return None if found is None else found.offset

    def _first_from(self, time_ms: int, end: int) -> int:
        offset = self.at(time_ms)
        return end if offset is None else min(offset, end)

    def _from_end(self, count: int, start: int, end: int) -> int | None:
        """The offset of the `count`-th visible record from the end; reads about as much as there is from there on."""
        width = count
        while end > start:
            begin = max(start, end - width)
            batches = [(records[0].offset, len(records)) for records in self.records(begin, end)]
            for first_offset, number in reversed(batches):
                if count <= number:
                    return next(self.records(first_offset, end))[number - count].offset
                count -= number
            end, width = begin, width * 2
        return None

    # What is there

    def record(self, name: RecordName) -> Record | None:
        """Return the visible record that the name means now; None if there is none."""
        if name is Edge.EARLIEST:
            return self.first(0)
        offset = name.offset if isinstance(name, AtOffset) else self.offset(name)
        return None if offset is None else self.first(offset, offset + 1)

    def first(self, start: int, end: int | None = None) -> Record | None:
        """Return the first visible record from an offset on, and below `end` if that is given; None without one."""
        isolation = self._context.isolation

        def look(view: LogView) -> tuple[range, Sequence[Record]]:
            bound = view.bound(isolation)
            some = range(max(start, view.start_offset), bound if end is None else min(end, bound))
            return some, records_from(view, some, isolation) if some else ()

        some, records = self.log.on_view(look)
        if some and not records:
            records = next(self.records(some.start, some.stop), ())
        return records[0] if records else None

    def records(self, start: int, end: int, on_loss: OnLoss | None = None) -> Iterator[list[Record]]:
        """The visible records of a range, those of a batch at a time.

        A range that goes up to the log's end, an empty one too, ends with `FramingError` if damage hides what follows.
        """
        splits, damage = self.splits(start, end, on_loss), self.damage_after(end)
        for split in splits:
            yield from self.read(split, on_loss)
        if damage is not None:
            raise damage

    def read(
        self, split: Split, on_loss: OnLoss | None = None, *, window_bytes: int = SPLIT_WINDOW_BYTES
    ) -> Generator[list[Record], None, None]:
        """The visible records of a split, those of a batch at a time; closing this closes the file."""
        files, clock = self._context.files, self._context.clock
        reader = RecordReader(
            files, clock, on_loss=on_loss or _fail, window_bytes=window_bytes, records_of=self._records_of
        )
        yield from reader.read(split)

    def splits(self, start: int, end: int, on_loss: OnLoss | None = None) -> list[Split]:
        """Return the splits of a range. Missing records are reported to `on_loss`, or raise `RecordsGoneError`."""
        _, log_dir = self._context.store.topics.location(self.topic, self.partition)
        return splits_of(
            self.log,
            PartitionPlace(str(log_dir.path), self.topic, self.partition),
            start,
            end,
            isolation=self._context.isolation,
            checks_end=False,
            on_loss=on_loss or _fail,
        )

    def damage_after(self, end: int) -> CorruptBatchError | None:
        """Return the damage that hides what follows a range with this end now, if the range goes up to the log's."""
        isolation = self._context.isolation

        def check(view: LogView) -> CorruptBatchError | None:
            if view.segments and end >= view.bound(isolation):
                try:
                    view.segments[-1].check_end(view.end_position)
                except CorruptBatchError as error:
                    return error
            return None

        return self.log.on_view(check)


def _fail(loss: RecordsGoneError) -> NoReturn:
    raise loss
