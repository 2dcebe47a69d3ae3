"""`diff`: how two stores differ; workers compare them range by range of offsets.

A partition is cut into ranges by the splits of the first store, and the same offsets are read from the other one, so
batches, their compression and segments may differ.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.spark.errors import MissingTopicError, OptionError
from kafkafs.spark.jobs.record_comparison import (
    COMPARED_COLUMNS,
    ONLY_IN_OTHER,
    ONLY_IN_STORE,
    Comparison,
    compare,
)
from kafkafs.spark.jobs.stores import opened, refuse
from kafkafs.spark.jobs.tasks import frame_of, results_of, task_bytes
from kafkafs.spark.sight import Sighted
from storage.clock import Clock
from storage.files import Files
from storage.split import DEFAULT_SPLIT_BYTES, SplitReader, packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from kafkafs.spark.opened_store import OpenedStore
    from kafkafs.spark.sight import Sight
    from storage.log_dir import Partition
    from storage.split import Split

SCHEMA: Final = (
    "topic string, partition int, isSame boolean, onlyIn string, startOffset long, otherStartOffset long, "
    "endOffset long, otherEndOffset long, records long, otherRecords long, differing long, "
    "differences array<struct<offset: long, fields: array<string>, onlyIn: string>>"
)


class _Pair(NamedTuple):
    """A partition, and its start and end offsets in each store; None for a store that does not have it."""

    partition: Partition
    ours: tuple[int, int] | None
    theirs: tuple[int, int] | None


class _Range(NamedTuple):
    """A range of offsets of the pair with this number, in each store."""

    number: int
    ours: list[Split]
    theirs: list[Split]

    @property
    def size_bytes(self) -> int:
        return sum(split.size_bytes for split in (*self.ours, *self.theirs))


def diff(
    spark: SparkSession,
    store: StorePath,
    other: StorePath,
    topics: Collection[str] | None = None,
    *,
    differences_max: int = 10,
) -> DataFrame:
    """Compare two stores, or some topics of theirs: a row for each partition that either of them has.

    It `isSame` if both stores have it, with the same start and end, and the same records at the same offsets:
    timestamp, key, value and headers. Only offsets between start and end in both stores are compared: `records` in the
    first and `otherRecords` in the other, with `differing` offsets. `differences` has the first of them, each with the
    `fields` that differ, or with the only store, `store` or `other`, that has the record. A partition that one store
    lacks is `onlyIn` the other. Aborted records are compared, control records are not. The comparison is complete when
    this returns.
    """
    if differences_max < 0:
        raise OptionError(f"the number of differences is 0 or more, not {differences_max}")
    with closing(opened(store, None)) as ours, closing(opened(other, None)) as theirs:
        pairs = _paired(ours, theirs, topics)
        ranges = list(_ranges(ours, theirs, pairs))
        packs = [
            Sighted(pack, _sight(ours, (each.ours for each in pack)) + _sight(theirs, (each.theirs for each in pack)))
            for pack in packed(ranges, task_bytes(spark, sum(each.size_bytes for each in ranges)))
        ]
    found = [Comparison()] * len(pairs)
    compared = results_of(spark, packs, partial(_compared, differences_max=differences_max))
    for pack, comparisons in zip(packs, compared, strict=True):
        for each, comparison in zip(pack.piece, comparisons, strict=True):
            found[each.number] = found[each.number].followed_by(comparison, differences_max)
    return frame_of(spark, [_row(pair, each) for pair, each in zip(pairs, found, strict=True)], SCHEMA)


def _paired(ours: OpenedStore, theirs: OpenedStore, topics: Collection[str] | None) -> list[_Pair]:
    bounds = []
    for store in (ours, theirs):
        partitions = store.partitions(must_exist=False)
        starts, ends = store.earliest(partitions), store.latest(partitions)
        bounds.append({each: (starts[each], ends[each]) for each in starts.keys() & ends.keys()})
    our_bounds, their_bounds = bounds
    both = our_bounds.keys() | their_bounds.keys()
    there = {topic for topic, _ in both}
    for topic in topics or ():
        if topic not in there:
            raise MissingTopicError(f"there is no topic {topic!r} in either store")
    chosen = sorted(each for each in both if topics is None or each[0] in topics)
    return [_Pair(each, our_bounds.get(each), their_bounds.get(each)) for each in chosen]


def _ranges(ours: OpenedStore, theirs: OpenedStore, pairs: Sequence[_Pair]) -> Iterator[_Range]:
    """Yield the ranges of offsets to compare, in their order."""
    for number, pair in enumerate(pairs):
        if pair.ours is None or pair.theirs is None:
            continue
        start, end = max(pair.ours[0], pair.theirs[0]), min(pair.ours[1], pair.theirs[1])
        if start >= end:
            continue
        splits = ours.splits({pair.partition: (start, end)}, DEFAULT_SPLIT_BYTES)
        bounds = [start, *(split.start_offset for split in splits if split.start_offset > start), end]
        for bound in pairwise(bounds):
            both = (store.splits({pair.partition: bound}, DEFAULT_SPLIT_BYTES) for store in (ours, theirs))
            yield _Range(number, *both)


def _sight(store: OpenedStore, splits: Iterable[Sequence[Split]]) -> Sight:
    return store.sights.of_splits(chain.from_iterable(splits))


def _compared(pack: Sequence[_Range], differences_max: int) -> list[Comparison]:
    """Compare ranges in a worker."""
    return [compare(_records(each.ours), _records(each.theirs), differences_max) for each in pack]


def _records(splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    reader = SplitReader(Files(), Clock(), columns=COMPARED_COLUMNS, on_loss=refuse)
    for split in splits:
        yield from reader.read(split)


def _row(pair: _Pair, found: Comparison) -> tuple[Any, ...]:
    only_in = ONLY_IN_STORE if pair.theirs is None else ONLY_IN_OTHER if pair.ours is None else None
    start, end = pair.ours or (None, None)
    other_start, other_end = pair.theirs or (None, None)
    return (
        *pair.partition,
        pair.ours == pair.theirs and not found.differing,
        only_in,
        start,
        other_start,
        end,
        other_end,
        found.records,
        found.other_records,
        found.differing,
        [(each.offset, list(each.fields), each.only_in) for each in found.differences],
    )
