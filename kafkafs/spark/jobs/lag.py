"""`lag`: what the groups of a store have not consumed, by its own logs, by another store's, and by a time.

Workers read the groups, find the offsets of times and count records. The driver has the offsets of groups and logs, and
adds up.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import Instant, parse_time
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.group_positions import group_positions
from kafkafs.spark.jobs.records_from import bounds_of, count_records, offsets_at
from kafkafs.spark.jobs.stores import opened
from kafkafs.spark.jobs.tasks import frame_of
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.group_positions import GroupPosition
    from kafkafs.spark.jobs.records_from import Bounds, RecordsFrom
    from kafkafs.spark.jobs.stores import StorePath
    from kafkafs.spark.opened_store import OpenedStore
    from storage.log_dir import Partition

SCHEMA: Final = (
    "group string, topic string, partition int, committedOffset long, committedTimestamp long, "
    "startOffset long, endOffset long, lag long, records long, firstTimestamp long, behindSeconds long, "
    "otherStartOffset long, otherEndOffset long, otherLag long, otherRecords long, missingRecords long, "
    "timeOffset long, recordsBefore long"
)


_MICROSECOND: Final = timedelta(microseconds=1)


class _Logs(NamedTuple):
    """A store's partitions: their bounds, and the records from each relevant offset on."""

    bounds: Mapping[Partition, Bounds]
    counts: Mapping[Partition, Mapping[int, RecordsFrom]]

    def records_from(self, partition: Partition, offset: int) -> RecordsFrom:
        """Return the records from an offset on, of a partition that the store has."""
        return self.counts[partition][self.bounds[partition].cut(offset)]

    def lag(self, position: GroupPosition) -> int | None:
        """Return how many offsets lie between the committed offset and the end."""
        bounds = self.bounds.get(position.partition)
        return None if bounds is None or position.committed_offset is None else bounds.end - position.committed_offset


def lag(
    spark: SparkSession,
    store: StorePath,
    groups: Collection[str] | None = None,
    *,
    other: StorePath | None = None,
    time: str | int | datetime | None = None,
) -> DataFrame:
    """Count what the groups of a store, or some of them, have not consumed: a row for each partition of a group.

    `lag` is `endOffset` less `committedOffset`, as in Kafka's tools, and `records` the actual number of records from
    the committed offset on: compaction and transaction markers leave fewer records than offsets. `firstTimestamp` is
    that of the first of them, and `behindSeconds` how long ago it was. A committed offset below `startOffset` means
    that unconsumed records are gone, one above `endOffset` that the log was truncated. Nothing is counted without a
    committed offset, or for a partition that is not in the store.

    With an `other` store, such as a backup or the log directories of another replica, the row also has its offsets,
    `otherLag` and `otherRecords` from the same committed offset: an `otherLag` below 0 means that the offset is beyond
    its end. `missingRecords` counts how many of `records` are outside its offsets: all if it lacks the partition.

    With a `time`, in milliseconds, as in paths or as an aware datetime, `timeOffset` is the offset of the first record
    that is not before it, as `by-time` has it, and `recordsBefore` counts how many of `records` are below that.

    Counting is complete when this returns. It fails at damage, and if records are deleted meanwhile.
    """
    now_ms = Clock().now_ms()
    time_ms = None if time is None else _time_ms(time, now_ms)
    with closing(opened(store, None)) as ours:
        positions = group_positions(spark, store, ours, groups)
        bounds = bounds_of(ours, {each.partition for each in positions})
        at_time = {} if time_ms is None else offsets_at(spark, ours, bounds, time_ms)
        if other is None:
            theirs = None
        else:
            with closing(opened(other, None)) as theirs_opened:
                theirs = _logs_of(spark, theirs_opened, positions)
        offsets = _offsets(bounds, positions)
        for partition, asked in offsets.items():
            others = () if theirs is None else theirs.bounds.get(partition, ())
            more = (*others, at_time.get(partition, bounds[partition].end))
            asked.update(bounds[partition].cut(offset) for offset in more)
        logs = _Logs(bounds, count_records(spark, ours, bounds, offsets))
    return frame_of(spark, [_row(each, logs, theirs, at_time, now_ms) for each in positions], SCHEMA)


def _logs_of(spark: SparkSession, planning: OpenedStore, positions: Sequence[GroupPosition]) -> _Logs:
    bounds = bounds_of(planning, {each.partition for each in positions})
    return _Logs(bounds, count_records(spark, planning, bounds, _offsets(bounds, positions)))


def _offsets(bounds: Mapping[Partition, Bounds], positions: Sequence[GroupPosition]) -> dict[Partition, set[int]]:
    """Return the offsets that groups have committed of existing partitions."""
    offsets: dict[Partition, set[int]] = {}
    for _, partition, committed_offset, _ in positions:
        if committed_offset is not None and partition in bounds:
            offsets.setdefault(partition, set()).add(bounds[partition].cut(committed_offset))
    return offsets


def _time_ms(time: str | int | datetime, now_ms: int) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise OptionError(f"the time {time} has no zone: give a datetime that is aware of its own")
        microseconds = (time - datetime.fromtimestamp(0, time.tzinfo)) // _MICROSECOND
        return Instant(max(-(-microseconds // 1000), 0)).time_ms
    try:
        return parse_time(str(time)).resolve(now_ms)
    except BadNameError as error:
        raise OptionError(str(error)) from None


def _row(
    position: GroupPosition,
    logs: _Logs,
    theirs: _Logs | None,
    at_time: Mapping[Partition, int],
    now_ms: int,
) -> tuple[Any, ...]:
    group, partition, committed, committed_ms = position
    bounds = logs.bounds.get(partition)
    unread = None if committed is None or bounds is None else logs.records_from(partition, committed)
    first = None if unread is None else unread.first_timestamp
    before = None
    if unread is not None and committed is not None and partition in at_time:
        before = unread.records - logs.records_from(partition, max(committed, at_time[partition])).records
    return (
        group,
        *partition,
        committed,
        committed_ms,
        *(bounds or (None, None)),
        logs.lag(position),
        None if unread is None else unread.records,
        first,
        None if first is None else (now_ms - first) // 1000,
        *_against(position, logs, theirs),
        at_time.get(partition),
        before,
    )


def _against(position: GroupPosition, logs: _Logs, theirs: _Logs | None) -> tuple[int | None, ...]:
    """Return the columns of the other store."""
    _, partition, committed, _ = position
    if theirs is None:
        return (None,) * 5
    bounds = theirs.bounds.get(partition)
    start, end = bounds or (None, None)
    if committed is None:
        return (start, end, None, None, None)
    missing = None
    if partition in logs.bounds:
        missing = logs.records_from(partition, committed).records
        if bounds is not None:
            from_start = logs.records_from(partition, max(committed, bounds.start))
            from_end = logs.records_from(partition, max(committed, bounds.end))
            missing += from_end.records - from_start.records
    records = None if bounds is None else theirs.records_from(partition, committed).records
    return (start, end, theirs.lag(position), records, missing)
