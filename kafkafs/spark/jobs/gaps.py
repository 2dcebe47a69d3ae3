"""`gaps`: what is out of order in the logs of a store; workers look for it split by split.

A task writes the gaps within its splits into the result. The ends of all splits of a partition come together, in order,
in another task, which finds the gaps between them. The driver only plans.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkafs.damage import Damage
from kafkafs.spark.errors import OptionError, SeenLessError
from kafkafs.spark.jobs.log_order import LogOrder, Stretch
from kafkafs.spark.jobs.stores import opened, refuse
from kafkafs.spark.jobs.tasks import batch_of, in_tasks, plain_schema
from kafkafs.spark.sight import Sighted
from storage.clock import Clock
from storage.files import Files
from storage.split import DEFAULT_SPLIT_BYTES, BatchReader, packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.gap_kinds import Gap
    from kafkafs.spark.jobs.log_order import StretchEnds
    from kafkafs.spark.jobs.stores import StorePath
    from kafkafs.spark.opened_store import OpenedStore
    from storage.log_dir import Partition
    from storage.split import Split

SCHEMA: Final = plain_schema(
    "topic string, partition int, kind string, firstOffset long, lastOffset long, extent long, regressionMs long, "
    "producerId long, producerEpoch short, sequence int, expectedSequence int, log string, position long, "
    "reason string, isCompacted boolean"
)
_ORDER: Final = ("isGap", "stretch", "row")  # so that the ends of all stretches come first
_FOUND: Final = StructType([*SCHEMA, *plain_schema("ends binary, isGap boolean, stretch long, row long")])
_ROWS_MAX: Final = 10_000  # held before they are passed on


class _Log(NamedTuple):
    """A partition's log, as it was planned."""

    partition: Partition
    start_offset: int
    end_offset: int
    is_compacted: bool


class _Piece(NamedTuple):
    """A stretch of a log; it has no split if the log has no batches."""

    log: _Log
    number: int
    split: Split | None

    @property
    def size_bytes(self) -> int:
        return 0 if self.split is None else self.split.size_bytes


def gaps(
    spark: SparkSession, store: StorePath, topics: Collection[str] | None = None, *, threshold_ms: int = 0
) -> DataFrame:
    """Find what is out of order in the present partitions of a store, or of some topics: a row for each gap.

    `kind` is `hole` for missing offsets from `firstOffset` to `lastOffset`, both included; `duplicate` if the log goes
    back to `firstOffset` after `lastOffset`; `time_regression` for all records of a partition that are more than
    `threshold_ms` older than the record before them: there are `extent` of them, and the first of the largest,
    `regressionMs`, is at `firstOffset`; `sequence_gap` and `sequence_duplicate` if a producer's batch does not begin
    with the `expectedSequence`; `damage` for batches that do not decode. Holes and sequence gaps are in order if a
    partition `isCompacted`, by the store or by its batches. Only times from producers are compared. The log is read
    whenever rows of the DataFrame are asked for.
    """
    if threshold_ms < 0:
        raise OptionError(f"a threshold is 0 ms or more, not {threshold_ms}")
    packs = _planned(store, topics)
    found = in_tasks(spark, packs, partial(_found, threshold_ms=threshold_ms), _FOUND, telling=_lacking)
    in_order = found.repartition("topic", "partition").sortWithinPartitions("topic", "partition", *_ORDER)
    return in_order.mapInArrow(partial(_completed, threshold_ms=threshold_ms), SCHEMA)


def _planned(store: StorePath, topics: Collection[str] | None) -> list[Sighted[tuple[_Piece, ...]]]:
    with closing(opened(store, topics, damage=Damage.SKIP)) as planning:
        return [
            Sighted(pack, planning.sights.of_splits(piece.split for piece in pack if piece.split is not None))
            for pack in packed(_pieces(planning))
        ]


def _pieces(planning: OpenedStore) -> Iterator[_Piece]:
    partitions = planning.partitions(must_exist=True)
    starts, ends = planning.earliest(partitions), planning.latest(partitions)
    for each in sorted(starts.keys() & ends.keys()):
        log = _Log(each, starts[each], ends[each], planning.sights.is_compacted(each))
        splits = planning.splits({each: (log.start_offset, log.end_offset)}, DEFAULT_SPLIT_BYTES)
        for number, split in enumerate(splits or [None]):
            yield _Piece(log, number, split)


def _lacking(error: SeenLessError) -> pa.RecordBatch:
    """Return a row that has the error in the place of the ends of a stretch."""
    nothing = (None,) * len(SCHEMA)
    return batch_of([(*nothing, pickle.dumps(error), False, None, None)], _FOUND)


def _found(pack: Sequence[_Piece], threshold_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the gaps within stretches, and for each stretch a row with its ends."""
    for piece in pack:
        stretch = Stretch(start_offset=piece.log.start_offset if piece.number == 0 else 0, threshold_ms=threshold_ms)
        numbered = enumerate(_within(piece, stretch))
        while held := list(islice(numbered, _ROWS_MAX)):
            rows = ((*_row(piece.log, gap), None, None, True, piece.number, row) for row, gap in held)
            yield batch_of(rows, _FOUND)
        nothing = (None,) * (len(SCHEMA) - len(piece.log.partition))
        ends = pickle.dumps((piece.log, stretch.ends))
        yield batch_of([(*piece.log.partition, *nothing, ends, False, piece.number, 0)], _FOUND)


def _within(piece: _Piece, stretch: Stretch) -> Iterator[Gap]:
    if piece.split is not None:
        reader = BatchReader(Files(), Clock(), on_loss=refuse, on_damage=stretch.lose)
        for run in reader.read(piece.split):
            yield from stretch.add(run)


def _completed(batches: Iterable[pa.RecordBatch], threshold_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the gaps log by log, those between stretches first."""
    completion: _Completion | None = None
    for ends_bytes, found in _runs(batches):
        if ends_bytes is not None:
            told = pickle.loads(ends_bytes)  # noqa: S301 -- what `_found` or `_lacking` has pickled
            if isinstance(told, SeenLessError):
                raise told
            log, ends = told
            if completion is None or completion.log != log:
                if completion is not None:
                    yield completion.finished()
                completion = _Completion(log, threshold_ms)
            completion.add(ends)
        elif completion is not None:
            yield completion.finished()
            yield completion.marked(found)
    if completion is not None:
        yield completion.finished()


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bytes | None, pa.RecordBatch]]:
    """Yield the ends of stretches one by one, and runs of gaps within stretches."""
    for batch in batches:
        begin = 0
        for row, ends_bytes in enumerate(batch.column("ends").to_pylist()):
            if ends_bytes is not None:
                if begin < row:
                    yield None, batch.slice(begin, row - begin)
                yield ends_bytes, batch.slice(row, 1)
                begin = row + 1
        if begin < batch.num_rows:
            yield None, batch.slice(begin)


class _Completion:
    """Completes a log, from the ends of all its stretches, then the gaps within them."""

    def __init__(self, log: _Log, threshold_ms: int) -> None:
        self.log = log
        self._order = LogOrder(start_offset=log.start_offset, threshold_ms=threshold_ms)
        self._between: list[Gap] = []
        self._is_finished = False

    @property
    def _is_compacted(self) -> bool:
        return self.log.is_compacted or self._order.lacks_records

    def add(self, ends: StretchEnds) -> None:
        """Add the next stretch."""
        self._between += self._order.add(ends)

    def finished(self) -> pa.RecordBatch:
        """Return the gaps between the stretches after the last one; a second call returns none."""
        if not self._is_finished:
            self._between += self._order.finish(self.log.end_offset)
            self._is_finished = True
        found, self._between = self._between, []
        return batch_of(((*_row(self.log, gap), self._is_compacted) for gap in found), SCHEMA)

    def marked(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """Return the gaps within stretches as rows of the result."""
        is_compacted = pa.repeat(self._is_compacted, found.num_rows)
        return pa.RecordBatch.from_arrays(
            [is_compacted if name == "isCompacted" else found.column(name) for name in SCHEMA.names],
            schema=to_arrow_schema(SCHEMA),
        )


def _row(log: _Log, gap: Gap) -> tuple[object, ...]:
    """Return all columns except the last."""
    name, position = (None, None) if gap.place is None else gap.place
    return (
        *log.partition,
        gap.kind.value,
        gap.first_offset,
        gap.last_offset,
        gap.extent,
        gap.regression_ms,
        gap.producer_id,
        gap.producer_epoch,
        gap.sequence,
        gap.expected_sequence,
        name,
        position,
        gap.reason,
    )
