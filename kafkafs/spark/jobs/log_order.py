"""Finds the gaps of a log stretch by stretch.

Stretches of a log are read in any order, by any worker, and their ends are enough to find the gaps between them: the
result is the same wherever a log is cut. A batch is compared with the one before it, so each gap describes one place of
the log; after damage, the next batch is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkafs.spark.jobs.gap_kinds import (
    Beginning,
    Gap,
    GapKind,
    Lost,
    Place,
    between,
    between_sequences,
    damages,
    hole,
    within,
)
from storage.record import NO_PRODUCER_ID, NO_SEQUENCE, TimestampType
from storage.split import TIME_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.spark.jobs.gap_kinds import Producer
    from storage.errors import CorruptBatchError
    from storage.record import Batch
    from storage.split import BatchRun

PRODUCERS_MAX: Final = 1_000_000
"""How many producers of a log are remembered: those that wrote last."""


class TimedRecord(NamedTuple):
    """The time that a record states, and its place."""

    timestamp: int
    offset: int
    place: Place


@dataclass(slots=True)
class Regressions:
    """Records that are more than `threshold_ms` older than the record before them."""

    threshold_ms: int
    count: int = 0
    largest_ms: int = 0
    at: TimedRecord | None = None

    def add(self, count: int, largest_ms: int, at: TimedRecord) -> None:
        """Add `count` records; `at` is the first with the largest regression."""
        self.count += count
        if self.at is None or largest_ms > self.largest_ms:
            self.largest_ms, self.at = largest_ms, at

    def step(self, before: TimedRecord | None, record: TimedRecord) -> None:
        """Add one record after another."""
        if before is not None and before.timestamp - record.timestamp > self.threshold_ms:
            self.add(1, before.timestamp - record.timestamp, record)


@dataclass(slots=True)
class StretchEnds:
    """The ends of a stretch, to compare with its neighbours.

    `first` is its first batch, and `lost_first` the damage before it; `lost_last` is the damage after the last batch,
    where offset `lost_from` was due. Records and batches of producers are first if there is no damage before them, and
    last if nothing follows them. A stretch `lacks_records` if a batch lacks some that it was written with: it was
    compacted.
    """

    regressions: Regressions
    is_damaged: bool = False
    lacks_records: bool = False
    first: Beginning | None = None
    lost_first: list[Lost] = field(default_factory=list)
    next_offset: int | None = None
    lost_from: int | None = None
    lost_last: list[Lost] = field(default_factory=list)
    first_record: TimedRecord | None = None
    last_record: TimedRecord | None = None
    first_batches: dict[Producer, Beginning] = field(default_factory=dict)
    last_sequences: dict[Producer, int] = field(default_factory=dict)


class Stretch:
    """Reads a stretch; `start_offset` is the start of the log if the first batch may begin before it."""

    def __init__(self, *, start_offset: int = 0, threshold_ms: int) -> None:
        self.ends = StretchEnds(Regressions(threshold_ms))
        self._start_offset = start_offset
        self._hiding: Place | None = None  # the batch that the stretch begins within

    def add(self, run: BatchRun) -> Iterator[Gap]:
        """Add the next batches, and yield the gaps before and within them."""
        for batch in run.batches:
            yield from self._add_batch(batch, Place(run.log_name, batch.position))
        for times in run.times:
            self._add_times(times, run.log_name)

    def lose(self, error: CorruptBatchError) -> None:
        """Note damage at this place."""
        ends = self.ends
        place = None
        if error.path is not None and error.position is not None:
            place = Place(PurePath(error.path).name, error.position)
        lost = ends.lost_first if ends.first is None else ends.lost_last
        if not lost:
            ends.lost_from = ends.next_offset
        lost.append(Lost(error.reason, place))
        ends.is_damaged = True
        ends.next_offset = ends.last_record = None
        ends.last_sequences.clear()

    def _add_batch(self, batch: Batch, place: Place) -> Iterator[Gap]:
        ends, offsets = self.ends, _listed_offsets(batch)
        begin = first_offset = batch.read_first_offset()
        if ends.first is None:
            if first_offset < self._start_offset <= batch.last_offset and not ends.is_damaged:
                begin, self._hiding = self._start_offset, place
            ends.first = Beginning(begin, first_offset, batch.last_offset, place)
        elif ends.next_offset is not None:
            yield from between(ends.next_offset, Beginning(begin, first_offset, batch.last_offset, place))
        else:
            yield from damages(ends.lost_last, ends.lost_from, first_offset)
            ends.lost_last.clear()
        if offsets is not None:
            found = list(within([offset for offset in offsets if offset >= begin], begin, batch.last_offset, place))
            ends.lacks_records |= any(gap.kind is GapKind.HOLE for gap in found)
            yield from found
        ends.next_offset = batch.last_offset + 1
        if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence > NO_SEQUENCE:
            yield from self._add_sequence(batch, place)

    def _add_sequence(self, batch: Batch, place: Place) -> Iterator[Gap]:
        ends, producer = self.ends, (batch.producer_id, batch.producer_epoch)
        first = Beginning(batch.base_sequence, batch.base_offset, batch.last_offset, place)
        last_sequence = ends.last_sequences.get(producer)
        if last_sequence is not None:
            yield from between_sequences(producer, last_sequence, first)
        elif not ends.is_damaged:
            ends.first_batches[producer] = first
        ends.last_sequences[producer] = batch.last_sequence

    def _add_times(self, times: pa.RecordBatch, log_name: str) -> None:
        """Compare each record that has a time from its producer with the one before it."""
        ends, given = self.ends, self._given(times, log_name)
        if not given.num_rows:
            return

        def record(row: int) -> TimedRecord:
            offset, timestamp, position = (column[row].as_py() for column in given.columns)
            return TimedRecord(timestamp, offset, Place(log_name, position))

        first = record(0)
        if ends.last_record is not None:
            ends.regressions.step(ends.last_record, first)
        elif ends.first_record is None and not ends.is_damaged:
            ends.first_record = first
        ends.last_record = record(given.num_rows - 1)
        timestamps = given.column("timestamp")
        steps_ms = pc.subtract(timestamps.slice(0, given.num_rows - 1), timestamps.slice(1))
        count = pc.greater(steps_ms, pa.scalar(ends.regressions.threshold_ms)).true_count
        if count:
            largest_ms = pc.max(steps_ms)
            ends.regressions.add(count, largest_ms.as_py(), record(pc.index(steps_ms, largest_ms).as_py() + 1))

    def _given(self, times: pa.RecordBatch, log_name: str) -> pa.RecordBatch:
        """Return the offsets, times in milliseconds and positions of the records with a time from their producer."""
        offsets, timestamps, kinds, positions = (times.column(name) for name in TIME_COLUMNS)
        milliseconds = timestamps.view(pa.int64())
        is_given = pc.equal(kinds, pa.scalar(TimestampType.CREATE_TIME.value, pa.int32()))
        is_given = pc.and_(is_given, pc.greater_equal(milliseconds, pa.scalar(0)))
        if self._hiding is not None and self._hiding.log_name == log_name:
            is_in_it = pc.equal(positions, pa.scalar(self._hiding.position))
            is_hidden = pc.and_(is_in_it, pc.less(offsets, pa.scalar(self._start_offset)))
            is_given = pc.and_not(is_given, is_hidden)
        columns = {"offset": offsets, "timestamp": milliseconds, "position": positions}
        return pa.RecordBatch.from_pydict(columns).filter(is_given)


class LogOrder:
    """Finds the gaps between the stretches of a log that begins at `start_offset`; they are added in order.

    It `lacks_records` if a stretch does.
    """

    def __init__(self, *, start_offset: int, threshold_ms: int) -> None:
        self.lacks_records = False
        self._regressions = Regressions(threshold_ms)
        self._next_offset: int | None = start_offset
        self._lost_from: int | None = None
        self._lost: list[Lost] = []
        self._last_record: TimedRecord | None = None
        self._last_sequences: dict[Producer, int] = {}  # of those that have written last, the last one at the end

    def add(self, ends: StretchEnds) -> Iterator[Gap]:
        """Yield the gap between the stretches so far and the next one."""
        self.lacks_records |= ends.lacks_records
        self._lose(ends.lost_first, self._next_offset)
        if ends.first is not None:
            if self._next_offset is not None:
                yield from between(self._next_offset, ends.first)
            yield from damages(self._lost, self._lost_from, ends.first.first_offset)
            self._lost.clear()
        for producer, first in ends.first_batches.items():
            last_sequence = self._last_sequences.get(producer)
            if last_sequence is not None:
                yield from between_sequences(producer, last_sequence, first)
        times = ends.regressions
        if ends.first_record is not None:
            self._regressions.step(self._last_record, ends.first_record)
        if times.at is not None:
            self._regressions.add(times.count, times.largest_ms, times.at)
        if ends.is_damaged:
            self._last_record = None
            self._last_sequences.clear()
        if ends.first is not None:
            self._next_offset = ends.next_offset
        if ends.last_record is not None:
            self._last_record = ends.last_record
        self._lose(ends.lost_last, ends.lost_from)
        self._remember(ends.last_sequences)

    def finish(self, end_offset: int) -> Iterator[Gap]:
        """Yield the gaps before the end of the log, and its time regressions."""
        if self._next_offset is not None and self._next_offset < end_offset:
            yield hole(self._next_offset, end_offset, None)
        yield from damages(self._lost, self._lost_from, end_offset)
        times = self._regressions
        if times.at is not None:
            at = times.at
            yield Gap(GapKind.TIME_REGRESSION, at.offset, at.offset, times.count, at.place, times.largest_ms)

    def _lose(self, lost: list[Lost], lost_from: int | None) -> None:
        if lost:
            if not self._lost:
                self._lost_from = lost_from
            self._lost += lost
            self._next_offset = None

    def _remember(self, last_sequences: Mapping[Producer, int]) -> None:
        for producer, last_sequence in last_sequences.items():
            self._last_sequences.pop(producer, None)
            self._last_sequences[producer] = last_sequence
        while len(self._last_sequences) > PRODUCERS_MAX:
            del self._last_sequences[next(iter(self._last_sequences))]


def _listed_offsets(batch: Batch) -> list[int] | None:
    """Return the offsets of a batch that lacks some between its first and its last; None if it has all of them."""
    if batch.count == batch.last_offset - batch.base_offset + 1:
        return None
    return [record.offset for record in batch.records()]
