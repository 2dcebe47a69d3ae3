"""Counts the records of partitions from given offsets on, and finds the offsets of a time, in workers.

A partition is cut into pieces, each counted from the headers of its batches, so neither the number of offsets nor
compression matters much.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.spark.jobs.stores import refuse
from kafkafs.spark.jobs.tasks import results_of, task_bytes
from kafkafs.spark.sight import Sighted
from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log import FollowedLog
from storage.split import DEFAULT_SPLIT_BYTES, RecordCounter, Stretch, packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kafkafs.spark.opened_store import OpenedStore
    from storage.log_dir import Partition
    from storage.split import PartitionPlace, Split

_SOUGHT_BYTES = 1024 * 1024  # what finding a time usually reads at most: the log between two index entries


class Bounds(NamedTuple):
    """The start and the end of a partition."""

    start: int
    end: int

    def cut(self, offset: int) -> int:
        """Return the offset, or the nearest that the partition has."""
        return min(max(offset, self.start), self.end)


class RecordsFrom(NamedTuple):
    """The records from an offset on, and the timestamp of the first; None without any, or if it has none."""

    records: int
    first_timestamp: int | None


class _Piece(NamedTuple):
    """A split, and the offsets from which its records are counted."""

    partition: Partition
    split: Split
    offsets: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return self.split.size_bytes


class _Sought(NamedTuple):
    """A partition in which to find the offset of a time."""

    place: PartitionPlace
    bounds: Bounds
    time_ms: int
    size_bytes: int = _SOUGHT_BYTES


def bounds_of(planning: OpenedStore, partitions: set[Partition]) -> dict[Partition, Bounds]:
    """Return the bounds of the existing partitions."""
    there = planning.partitions(must_exist=False) & partitions
    starts, ends = planning.earliest(there), planning.latest(there)
    return {each: Bounds(starts[each], ends[each]) for each in starts.keys() & ends.keys()}


def offsets_at(
    spark: SparkSession, planning: OpenedStore, bounds: Mapping[Partition, Bounds], time_ms: int
) -> dict[Partition, int]:
    """Return the offset of each partition's first record that is not before a time; else its end."""
    partitions = sorted(bounds)
    sought = packed(_Sought(planning.place(each), bounds[each], time_ms) for each in partitions)
    packs = [Sighted(pack, planning.sights.of_logs(each.place[1:] for each in pack)) for pack in sought]
    return dict(zip(partitions, chain.from_iterable(results_of(spark, packs, _sought)), strict=True))


def count_records(
    spark: SparkSession,
    planning: OpenedStore,
    bounds: Mapping[Partition, Bounds],
    offsets: Mapping[Partition, set[int]],
) -> dict[Partition, dict[int, RecordsFrom]]:
    """Count the records of partitions from each of some offsets on, which lie within their bounds."""
    pieces = list(_pieces(planning, bounds, offsets))
    packs = [
        Sighted(pack, planning.sights.of_splits(piece.split for piece in pack))
        for pack in packed(pieces, task_bytes(spark, sum(piece.size_bytes for piece in pieces)))
    ]
    stretches: dict[Partition, dict[int, Stretch]] = {}
    for pack, counted in zip(packs, results_of(spark, packs, _counted), strict=True):
        for piece, parts in zip(pack.piece, counted, strict=True):
            _put_together(parts, stretches.setdefault(piece.partition, {}))
    return {each: _summed(asked, stretches.get(each, {})) for each, asked in offsets.items()}


def _pieces(
    planning: OpenedStore, bounds: Mapping[Partition, Bounds], offsets: Mapping[Partition, set[int]]
) -> Iterator[_Piece]:
    for partition, asked in sorted(offsets.items()):
        ordered = sorted(asked)
        if not ordered:
            continue
        for split in planning.splits({partition: (ordered[0], bounds[partition].end)}, DEFAULT_SPLIT_BYTES):
            first = max(bisect_right(ordered, split.start_offset) - 1, 0)
            yield _Piece(partition, split, tuple(ordered[first : bisect_left(ordered, split.end_offset)]))


def _sought(pack: Sequence[_Sought]) -> list[int]:
    """Find the offset of a time, in a worker."""
    return [_offset_at(each) for each in pack]


def _offset_at(sought: _Sought) -> int:
    directory, start_offset = Files().partition(sought.place.directory), sought.bounds.start
    config = TopicConfig.resolve({})
    log = FollowedLog(Clock(), directory, config, start_offset=start_offset, producer_expiration_ms=0)
    try:
        found = log.find_timestamp(sought.time_ms)
    finally:
        log.close()
    return sought.bounds.end if found is None else sought.bounds.cut(found.offset)


def _counted(pack: Sequence[_Piece]) -> list[list[Stretch]]:
    """Count, in a worker."""
    found = []
    for piece in pack:
        counter = RecordCounter(Files(), Clock(), piece.offsets, on_loss=refuse)
        stretches: dict[int, Stretch] = {}
        _put_together(counter.read(piece.split), stretches)
        found.append(list(stretches.values()))
    return found


def _put_together(parts: Sequence[Stretch] | Iterator[Stretch], stretches: dict[int, Stretch]) -> None:
    """Add parts, each of which follows the ones before, to the stretches that they belong to."""
    for part in parts:
        known = stretches.setdefault(part.start, Stretch(part.start))
        if part.records:
            known.add(part.records, part.first_timestamp)


def _summed(offsets: set[int], stretches: Mapping[int, Stretch]) -> dict[int, RecordsFrom]:
    """Return sums from each offset on; each stretch ends at the next offset."""
    found: dict[int, RecordsFrom] = {}
    records, first_timestamp = 0, None
    for offset in sorted(offsets, reverse=True):
        stretch = stretches.get(offset)
        if stretch is not None and stretch.records:
            records += stretch.records
            first_timestamp = stretch.first_timestamp if (stretch.first_timestamp or 0) >= 0 else None
        found[offset] = RecordsFrom(records, first_timestamp)
    return found
