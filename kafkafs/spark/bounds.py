"""The bounds of a query, parsed from its options; the store resolves them to offsets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import parse_milliseconds, parse_time
from kafkafs.spark.errors import OptionError
from kafkafs.spark.json_forms import partition_offsets, partition_times
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import TypeAlias

    from kafkafs.locator.times import Time
    from storage.log_dir import Partition

LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


class Edge(Enum):
    """The beginning or the end of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


class NoMatch(Enum):
    """What to do with a partition that has no record from the starting time on."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, -1 for its end and -2 for its beginning."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A time for each partition."""

    times: Mapping[Partition, Time]


@dataclass(frozen=True, slots=True)
class AtTime:
    """A time for all partitions."""

    time: Time


if TYPE_CHECKING:
    Bound: TypeAlias = "Edge | AtOffsets | AtTimes | AtTime"


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """The names of the options for one bound, in order of precedence."""

    timestamp: str
    by_timestamp: str
    offsets: str

    def parse(self, options: Mapping[str, str], default: Edge) -> Bound:
        """Return the bound in options whose names are in lower case; raises `OptionError`."""
        if (text := options.get(self.timestamp.lower())) is not None:
            return AtTime(_time(self.timestamp, text))
        if (text := options.get(self.by_timestamp.lower())) is not None:
            return AtTimes({key: _time(self.by_timestamp, time) for key, time in partition_times(text).items()})
        text = options.get(self.offsets.lower(), default.value).strip()
        if text.lower() in {edge.value for edge in Edge}:
            return Edge(text.lower())
        return AtOffsets(partition_offsets(text))


STARTING: Final = BoundOptions("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING: Final = BoundOptions("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")


def check_batch_bounds(starting: Bound, ending: Bound) -> None:
    """Raise `OptionError` for a batch query that begins at the end of partitions, or ends at their beginning."""
    if starting is Edge.LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if ending is Edge.EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(starting, AtOffsets):
        for (topic, partition), offset in starting.offsets.items():
            if offset == LATEST_OFFSET:
                raise OptionError(f"startingOffsets for {topic}-{partition} can't be latest for batch queries on Kafka")
    if isinstance(ending, AtOffsets):
        for (topic, partition), offset in ending.offsets.items():
            if offset == EARLIEST_OFFSET:
                raise OptionError(f"ending offset for {topic}-{partition} can't be earliest for batch queries on Kafka")

    _check_order(starting, ending)


def check_resolved(starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
    """Raise `OptionError` for a partition that a batch query would read from after its end on."""
    for (topic, partition), start in starts.items():
        end = ends.get((topic, partition), start)
        if start > end:
            raise OptionError(
                f"The resolved start offset {start} is greater than the resolved end offset {end} for topic {topic} "
                f"partition {partition}; choose a start at or before the end, which is the end of the log unless the "
                "options say another."
            )


def _check_order(starting: Bound, ending: Bound) -> None:
    """Raise `OptionError` if the options alone say that a query ends before it starts."""
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_same(starting.offsets, ending.offsets, "offset")
        for (topic, partition), start in starting.offsets.items():
            end = ending.offsets[topic, partition]
            if start > end >= 0:
                raise OptionError(
                    f"The specified start offset {start} is greater than the end offset {end} for topic {topic} "
                    f"partition {partition}."
                )
    if isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        _check_same(starting.times, ending.times, "timestamp")
        now_ms = Clock().now_ms()
        for (topic, partition), time in starting.times.items():
            start, end = time.resolve(now_ms), ending.times[topic, partition].resolve(now_ms)
            if start > end:
                raise OptionError(
                    f"The specified start timestamp {start} is greater than the end timestamp {end} for topic {topic} "
                    f"partition {partition}."
                )


def _check_same(starting: Collection[Partition], ending: Collection[Partition], kind: str) -> None:
    if set(starting) != set(ending):
        raise OptionError(
            f"The specified start {kind} and end {kind} should have the same topic-partitions. Topic-partitions for "
            f"start {kind}: {names(starting)}, topic-partitions for end {kind}: {names(ending)}."
        )


def names(partitions: Iterable[Partition]) -> str:
    """Return partitions as Kafka writes them."""
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def _time(option: str, text: str) -> Time:
    """Return the time of an option. A number is always milliseconds, as in Spark's connector."""
    try:
        return parse_milliseconds(text.strip()) or parse_time(text.strip())
    except BadNameError as error:
        raise OptionError(f"the option {option}: {error}") from None
