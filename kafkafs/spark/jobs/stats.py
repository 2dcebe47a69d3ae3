"""`stats`: counts the records, batches and bytes of each partition, segment by segment in the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import answers_of, frame_of, task_bytes
from kafkafs.spark.sight import Sighted, Sights, seen_less
from storage.clock import Clock
from storage.errors import UnknownPartitionError
from storage.files import Files
from storage.log import LogStatistics, counted_ranges
from storage.segment import CountedRange, count_batches
from storage.split import packed
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.log_dir import Partition
    from storage.segment import BatchCounts

SCHEMA: Final = (
    "topic string, partition int, records long, batches long, bytes long, indexBytes long, segments long, "
    "startOffset long, endOffset long, firstTimestamp long, lastTimestamp long, controlBatches long, "
    "codecs map<string, long>, magics map<int, long>, damages long, "
    "averageBatchBytes double, largestBatchBytes long, recordsPerSecond double, bytesPerSecond double"
)


class PartitionStatistics(NamedTuple):
    """A partition, and its counts."""

    topic: str
    partition: int
    found: LogStatistics


class _Piece(NamedTuple):
    """A segment's range, and the number of its partition."""

    number: int
    counted: CountedRange

    @property
    def size_bytes(self) -> int:
        return self.counted.size_bytes


def stats(spark: SparkSession, store: StorePath, topics: Collection[str] | None = None) -> DataFrame:
    """Count records, batches and bytes of each partition, or of those of some topics, as `kafkafs stats` does.

    A row also has the average and the largest size of batches, and the records and bytes for each second between the
    first and the last timestamp, null if no time lies between them. Counting is complete when this returns; segments
    that retention deletes meanwhile are left out. Raises `SeenLessError` if a task does not see all others.
    """
    return frame_of(spark, [_row(each) for each in count_partitions(spark, store, topics)], SCHEMA)


def count_partitions(
    spark: SparkSession, store: StorePath, topics: Collection[str] | None = None
) -> list[PartitionStatistics]:
    """Return the counts of each partition; raises `UnknownPartitionError` for a missing topic."""
    with Store.open(log_dirs(store), mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        partitions: list[PartitionStatistics] = []
        pieces: list[_Piece] = []
        for each, ranges in _planned(opened, topics):
            pieces += [_Piece(len(partitions), counted) for counted in ranges]
            partitions.append(each)
        packs = packed(pieces, task_bytes(spark, sum(piece.size_bytes for piece in pieces)))
        sights = Sights(opened)
        sighted = [Sighted(pack, sights.of(_segments(pack, partitions))) for pack in packs]
    for pack, answer in zip(packs, answers_of(spark, sighted, _count), strict=True):
        uncounted = 0
        for piece, found in zip(pack, answer.result, strict=True):
            if found is None:
                uncounted += 1
            else:
                partitions[piece.number].found.add(piece.counted, found)
        if uncounted > sum(answer.dropped.values()):
            raise seen_less(f"{len(pack) - uncounted} of {len(pack)} segments were counted")
    return partitions


def _segments(
    pack: Sequence[_Piece], partitions: Sequence[PartitionStatistics]
) -> dict[Partition, list[tuple[int, int]]]:
    """Return the segments that a pack counts, by partition."""
    segments: dict[Partition, list[tuple[int, int]]] = {}
    for piece in pack:
        each = partitions[piece.number]
        segments.setdefault((each.topic, each.partition), []).append((piece.counted.base_offset, piece.counted.end))
    return segments


def _planned(opened: Store, topics: Collection[str] | None) -> Iterator[tuple[PartitionStatistics, list[CountedRange]]]:
    """Yield the uncounted partitions, and the pieces of each to count."""
    for topic in dict.fromkeys(opened.topics.inventory.topics if topics is None else topics):
        for partition in opened.topics.partitions(topic):
            try:
                view = opened.log(topic, partition).view
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            empty = LogStatistics(view.start_offset, view.end_offset)
            yield PartitionStatistics(topic, partition, empty), list(counted_ranges(view))


def _count(pack: tuple[_Piece, ...]) -> list[BatchCounts | None]:
    """Count in a worker; None for a segment that was deleted meanwhile."""
    return [_counted(piece.counted) for piece in pack]


def _counted(counted: CountedRange) -> BatchCounts | None:
    try:
        directory, _ = Files().parent(counted.path)
        return count_batches(directory, counted)
    except FileNotFoundError:
        return None


def _row(each: PartitionStatistics) -> tuple[Any, ...]:
    found = each.found
    first, last = found.first_timestamp, found.last_timestamp
    span_s = 0.0 if first is None or last is None else (last - first) / 1000
    return (
        each.topic,
        each.partition,
        found.records,
        found.batches,
        found.size_bytes,
        found.index_bytes,
        found.segments,
        found.start_offset,
        found.end_offset,
        first,
        last,
        found.control_batches,
        dict(sorted(found.codecs.items())),
        dict(sorted(found.magics.items())),
        len(found.damages),
        found.batch_bytes / found.batches if found.batches else None,
        found.largest_batch_bytes if found.batches else None,
        found.records / span_s if span_s > 0 else None,
        found.batch_bytes / span_s if span_s > 0 else None,
    )
