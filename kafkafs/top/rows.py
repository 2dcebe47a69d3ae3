"""The rows of topics and of partitions, as a look at the store has them: their fields, and their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkafs.top.reading import PartitionReading, Reading

COLUMNS: Final = (
    *("timestamp", "topic", "partitions", "bytesPerSecond", "recordsPerSecond", "bytes", "lag", "group"),
    *("oldestTimestamp", "nextFreedBytes", "nextFreedSeconds", "nextFreedAfterBytes", "errors"),
)
PARTITION_COLUMNS: Final = (
    *("timestamp", "topic", "partition", "startOffset", "endOffset", "segments", "bytesPerSecond"),
    *("recordsPerSecond", "bytes", "lag", "group", "oldestTimestamp", "nextFreedBytes", "nextFreedSeconds"),
    *("nextFreedAfterBytes", "error"),
)


@dataclass(frozen=True, slots=True)
class Freed:
    """What retention frees next: when, or after how many more bytes of a log that does not grow."""

    size_bytes: int
    due_ms: int | None
    missing_bytes: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A topic, whose `partition` is None, or a partition. What is unknown is None.

    `lag` is the largest of a group's, and `group` is that group. `error` is the first of a topic's.
    """

    topic: str
    partition: int | None
    now_ms: int
    partitions: int
    errors: int
    error: str | None
    start_offset: int | None
    end_offset: int | None
    segments: int | None
    bytes_per_second: float | None
    records_per_second: float | None
    size_bytes: int | None
    lag: int | None
    group: str | None
    oldest_ms: int | None
    freed: Freed | None
    is_freed_known: bool

    @property
    def name(self) -> str:
        """The name of the topic, or that of the partition's directory."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def fields(self) -> Mapping[str, object]:
        """Return a value or None for every column of either kind of row."""
        freed = self.freed
        due_ms = None if freed is None else freed.due_ms
        return {
            "timestamp": self.now_ms,
            "topic": self.topic,
            "partition": self.partition,
            "partitions": self.partitions,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "segments": self.segments,
            "bytesPerSecond": _rounded(self.bytes_per_second),
            "recordsPerSecond": _rounded(self.records_per_second),
            "bytes": self.size_bytes,
            "lag": self.lag,
            "group": self.group,
            "oldestTimestamp": self.oldest_ms,
            "nextFreedBytes": None if freed is None else freed.size_bytes,
            "nextFreedSeconds": None if due_ms is None else (due_ms - self.now_ms) // 1000,
            "nextFreedAfterBytes": None if freed is None else freed.missing_bytes,
            "errors": self.errors,
            "error": self.error,
        }


class Key(Enum):
    """What rows are sorted by, the largest first, or by name from A on; the value is the word for it."""

    RATE = "rate"
    RECORDS = "records"
    SIZE = "size"
    LAG = "lag"
    OLDEST = "oldest"
    FREED = "freed"
    NAME = "name"


_SORTED_BY: Final[Mapping[Key, Callable[[Row], float | None]]] = {
    Key.RATE: lambda row: row.bytes_per_second,
    Key.RECORDS: lambda row: row.records_per_second,
    Key.SIZE: lambda row: row.size_bytes,
    Key.LAG: lambda row: row.lag,
    Key.OLDEST: lambda row: None if row.oldest_ms is None else -row.oldest_ms,
    Key.FREED: lambda row: None if row.freed is None or row.freed.due_ms is None else -row.freed.due_ms,
}


def topic_rows(reading: Reading) -> list[Row]:
    """Return a row for each topic, by name."""
    groups = groupby(reading.partitions, key=lambda each: each.topic)
    return [_row(reading, topic, None, list(partitions)) for topic, partitions in groups]


def partition_rows(reading: Reading, topic: str | None = None) -> list[Row]:
    """Return a row for each partition of a topic, or of all."""
    chosen = (each for each in reading.partitions if topic is None or each.topic == topic)
    return [_row(reading, each.topic, each.partition, [each]) for each in chosen]


def total_row(reading: Reading) -> Row:
    """Return what all partitions have together."""
    return _row(reading, "", None, reading.partitions)


def sorted_rows(rows: Iterable[Row], key: Key, *, is_reversed: bool = False) -> list[Row]:
    """Return rows in the order of a key; those without a value come last, equal ones by size and name."""
    named = sorted(rows, key=lambda row: (row.topic, -1 if row.partition is None else row.partition))
    if key is Key.NAME:
        return named[::-1] if is_reversed else named
    value = _SORTED_BY[key]
    named.sort(key=lambda row: -(row.size_bytes or 0))
    sign = 1 if is_reversed else -1

    def place(row: Row) -> tuple[bool, float]:
        found = value(row)
        return (True, 0) if found is None else (False, sign * found)

    return sorted(named, key=place)


def _row(reading: Reading, topic: str, partition: int | None, of: Sequence[PartitionReading]) -> Row:
    errors = [each.error for each in of if each.error is not None]
    one = of[0] if partition is not None else None
    lags: Counter[str] = Counter()
    for each in of:
        lags.update(dict(each.lags))
    group = max(lags, key=lambda group_id: (lags[group_id], group_id), default=None)
    oldest = [each.oldest_ms for each in of if each.oldest_ms is not None]
    return Row(
        topic=topic,
        partition=partition,
        now_ms=reading.now_ms,
        partitions=len(of),
        errors=len(errors),
        error=errors[0] if errors else None,
        start_offset=None if one is None else one.start_offset,
        end_offset=None if one is None else one.end_offset,
        segments=None if one is None else one.segments,
        bytes_per_second=_sum(each.bytes_per_second for each in of),
        records_per_second=_sum(each.records_per_second for each in of),
        size_bytes=None if one is not None and one.size_bytes is None else sum(each.size_bytes or 0 for each in of),
        lag=None if group is None else lags[group],
        group=group,
        oldest_ms=min(oldest, default=None),
        freed=_freed(reading.now_ms, of),
        is_freed_known=all(each.is_freed_known for each in of),
    )


def _freed(now_ms: int, of: Iterable[PartitionReading]) -> Freed | None:
    """Return what goes now of all of these; where nothing does, what goes first."""
    now_bytes, first = 0, None
    for each in of:
        if (found := each.next_freed) is None:
            continue
        due_ms = found.due_ms(now_ms, each.bytes_per_second)
        if due_ms is not None and due_ms <= now_ms:
            now_bytes += found.size_bytes
            continue
        place = (due_ms is None, due_ms or found.missing_bytes or 0)
        if first is None or place < first[0]:
            first = (place, Freed(found.size_bytes, due_ms, found.missing_bytes if due_ms is None else None))
    if now_bytes:
        return Freed(now_bytes, now_ms, None)
    return None if first is None else first[1]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
