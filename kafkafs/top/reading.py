"""Looks at all partitions of a store, and how fast each has grown from one look to the next.

A look costs a listing of the partition's directory and the header of its last batch; no record is read but those of
`__consumer_offsets`. What does not change with every append is kept until it does. Nothing is written, and no lock is
taken: a broker or a mount may be writing. What cannot be read of a partition is told in its place.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.patterns import PartitionPattern
from kafkafs.top.next_freed import NextFreed, next_freed
from storage.clock import Clock
from storage.cluster import group_rows
from storage.errors import StorageError, UnknownPartitionError
from storage.log import FollowedLog, Log
from storage.store import InternalTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from storage.config import TopicConfig
    from storage.files import FileStatus
    from storage.log import LogView, ReadableLog
    from storage.log_dir import Partition
    from storage.segment import Segment
    from storage.store import Store

    Lags = tuple[tuple[str, int], ...]

_ANY: Final = ("*",)
_LOOKS_A_ROUND: Final = 8  # in so many looks each log is looked at closely once, as commits change no file of it
_COARSE_NS: Final = 20_000_000  # file systems stamp changes by a clock that ticks every 10 ms


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """A partition at one look. Rates are None at the first one; other fields are None where they cannot be read.

    `error` says why. `lags` are the groups' ids with theirs, and `oldest_ms` is the time of the oldest batch. What goes
    next is not known where the topic's settings are not.
    """

    topic: str
    partition: int
    start_offset: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None
    segments: int | None = None
    bytes_per_second: float | None = None
    records_per_second: float | None = None
    oldest_ms: int | None = None
    next_freed: NextFreed | None = None
    is_freed_known: bool = True
    lags: Lags = ()
    error: str | None = None


class Reading(NamedTuple):
    """A store at one look, its partitions in their order. `shortcomings` say what is missing besides."""

    now_ms: int
    partitions: tuple[PartitionReading, ...]
    shortcomings: tuple[str, ...]


class Grown(NamedTuple):
    """How far a log had grown at a look."""

    elapsed_s: float
    end_offset: int
    active_offset: int
    active_bytes: int


class _Known:
    """What is kept of a partition from one look to the next: `told` is what the last one told of it.

    `seen` are the states of its directory and of its last file from before they were read, and the checkpointed start;
    None if they may have changed once more since, at a time that file systems do not tell from the one before.
    """

    __slots__ = ("config", "first", "grown", "high_watermark", "oldest_ms", "seen", "told", "view")

    def __init__(self) -> None:
        self.told: PartitionReading | None = None
        self.seen: tuple[FileStatus, FileStatus, int] | None = None
        self.view: LogView | None = None
        self.grown: Grown | None = None
        self.first: tuple[Segment, int] | None = None  # whose oldest batch has this time
        self.oldest_ms: int | None = None
        self.config: TopicConfig | None = None  # of the plan
        self.high_watermark = -1  # of the plan


class Reader:
    """Reads the partitions of the topics that patterns match, or of all, again and again. One thread uses it.

    `progress` is called with how many partitions were read, and of how many; a reading stops if it returns True.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        patterns: Sequence[str] = (),
        *,
        progress: Callable[[int, int], bool] = lambda _done, _total: False,
    ) -> None:
        from storage.store import StoreRetention

        self.store = store
        self._clock = clock
        self._system_clock = Clock()  # the one that stamps files
        self._patterns = [PartitionPattern.of(each) for each in patterns or _ANY]
        self.progress = progress
        self._retention = StoreRetention(store, clock)
        self._groups = InternalTopics(store, clock, self._internal_log)
        self._known: dict[Partition, _Known] = {}
        self._looks = 0

    def read(self) -> Reading | None:
        """Look at everything; None if `progress` stopped it."""
        shortcomings: list[str] = []
        try:
            self.store.refresh()
        except (StorageError, OSError) as error:
            shortcomings.append(said(error))
        partitions = [
            (topic, partition)
            for topic, found in self.store.topics.inventory.topics.items()
            for partition in found
            if any(pattern.means(topic, partition) for pattern in self._patterns)
        ]
        self._known = {each: self._known.get(each) or _Known() for each in partitions}
        found: dict[Partition, PartitionReading] = {}
        configs: dict[str, TopicConfig] = {}
        self._looks += 1
        for number, each in enumerate(partitions):
            if self.progress(number, len(partitions)):
                return None
            try:
                if each[0] not in configs:
                    configs[each[0]] = self.store.topics.config(each[0])
                is_close = number % _LOOKS_A_ROUND == self._looks % _LOOKS_A_ROUND
                found[each] = self._read(*each, configs[each[0]], is_close=is_close)
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                self._known[each] = _Known()
                found[each] = PartitionReading(*each, error=said(error))
        lags = self._lags(found, shortcomings)
        readings = tuple(_with_lags(reading, lags.get(each)) for each, reading in found.items())
        return Reading(self._clock.now_ms(), readings, tuple(shortcomings))

    def _read(self, topic: str, partition: int, config: TopicConfig, *, is_close: bool) -> PartitionReading:
        """Look at a partition; not `is_close`, a log whose files have not changed is what it was."""
        log = self.store.log(topic, partition)
        known = self._known[topic, partition]
        now_ns = 1_000_000 * self._system_clock.now_ms()
        seen = None if known.view is None else _seen(log, known.view)
        if (
            not is_close
            and seen is not None
            and seen == known.seen
            and known.told is not None
            and known.grown is not None
        ):
            assert known.view is not None
            known.grown = known.grown._replace(elapsed_s=self._clock.elapsed_s())
            still = replace(known.told, bytes_per_second=0.0, records_per_second=0.0)
            known.told = self._with_plan(still, known.view, known, config)
        else:
            known.told = log.on_view(lambda view: self._read_view(topic, partition, view, known, config))
            is_past = seen is not None and max(seen[0].changed_ns, seen[1].changed_ns) + _COARSE_NS <= now_ns
            known.seen = seen if is_past else None
        return known.told

    def _read_view(
        self, topic: str, partition: int, view: LogView, known: _Known, config: TopicConfig
    ) -> PartitionReading:
        before, error = known.grown, None
        active = view.segments[-1].base_offset if view.segments else view.end_offset
        known.grown = Grown(self._clock.elapsed_s(), view.end_offset, active, view.end_position)
        known.view = view
        bytes_per_second, records_per_second = rates(before, known.grown, view)
        try:
            if view.segments:
                view.segments[-1].check_end(view.end_position)
            self._look_at_first(view, known)
        except FileNotFoundError:
            raise  # of a segment that is deleted: a newer view has others
        except (StorageError, OSError) as failure:
            error = said(failure)
        told = PartitionReading(
            topic,
            partition,
            start_offset=view.start_offset,
            end_offset=view.end_offset,
            size_bytes=sum(segment.size_bytes for segment in view.segments[:-1]) + view.end_position,
            segments=len(view.segments),
            bytes_per_second=bytes_per_second,
            records_per_second=records_per_second,
            oldest_ms=known.oldest_ms,
            error=error,
        )
        known.config = None  # its plan is another's
        return self._with_plan(told, view, known, config)

    def _look_at_first(self, view: LogView, known: _Known) -> None:
        """Find the time of the oldest batch, if another one is the oldest by now."""
        first = (view.segments[0], view.start_offset) if view.segments else None
        if first is not None and known.first == first and known.oldest_ms is not None:
            return
        known.first, known.oldest_ms = first, None
        batch = view.find(view.start_offset) if view.start_offset < view.end_offset else None
        if batch is not None:
            first_ms = batch.first_timestamp
            oldest_ms = batch.max_timestamp if first_ms is None else first_ms
            known.oldest_ms = oldest_ms if oldest_ms >= 0 else None

    def _with_plan(self, told: PartitionReading, view: LogView, known: _Known, config: TopicConfig) -> PartitionReading:
        """Return it with what goes next, planned again if the settings or the high watermark differ, or it is time."""
        topic, partition = told.topic, told.partition
        high_watermark = self.store.high_watermark(topic, partition, view)
        freed = told.next_freed
        is_due = freed is not None and freed.at_ms is not None and freed.at_ms <= self._clock.now_ms()
        if known.config is config and known.high_watermark == high_watermark and not is_due:
            return told
        known.config, known.high_watermark = config, high_watermark
        try:
            plan = self._retention.plan(topic, partition, view)
        except FileNotFoundError:
            raise
        except (StorageError, OSError) as failure:
            return replace(told, next_freed=None, error=told.error or said(failure))
        return replace(told, next_freed=next_freed(plan), is_freed_known=not plan.unknown)

    def _lags(self, found: Mapping[Partition, PartitionReading], shortcomings: list[str]) -> dict[Partition, Lags]:
        """Return the lag of each group in each partition that it has committed an offset of."""
        lags: dict[Partition, dict[str, int]] = defaultdict(dict)
        try:
            groups = self._groups.groups()
        except (StorageError, OSError) as error:
            shortcomings.append(said(error))
            return {}
        shortcomings.extend(groups.shortcomings)
        for group_id in groups.groups:
            rows = group_rows(groups.groups[group_id], lambda each: found[each].end_offset if each in found else None)
            for row in rows:
                if row.lag is not None and row.topic is not None and row.partition is not None:
                    lags[row.topic, row.partition][group_id] = max(row.lag, 0)
        return {each: tuple(of_groups.items()) for each, of_groups in lags.items()}

    def _internal_log(self, topic: str, partition: int) -> Log | FollowedLog:
        log = self.store.log(topic, partition)
        assert isinstance(log, Log | FollowedLog)
        return log


def _seen(log: ReadableLog, view: LogView) -> tuple[FileStatus, FileStatus, int] | None:
    """Return the states of the log's directory and of its last file, and its start; None if one is missing."""
    if not isinstance(log, FollowedLog) or not view.segments:
        return None
    directory, file = log.directory.own_status(), view.segments[-1].log_status()
    return None if directory is None or file is None else (directory, file, log.checkpointed_start)


def said(error: StorageError | OSError) -> str:
    """Return an error in a sentence, which names the file."""
    if not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


def rates(before: Grown | None, now: Grown, view: LogView) -> tuple[float | None, float | None]:
    """Return the bytes and the offsets a second that were appended between two looks; None at the first.

    What retention and compaction remove does not count, nor does a truncation. Segments that came and went between two
    looks are missing from the bytes.
    """
    if before is None or now.elapsed_s <= before.elapsed_s:
        return None, None
    seconds = now.elapsed_s - before.elapsed_s
    return sum(_grown(before, now, view)) / seconds, max(now.end_offset - before.end_offset, 0) / seconds


def _grown(before: Grown, now: Grown, view: LogView) -> Iterator[int]:
    """Yield how much each segment has grown."""
    for segment in reversed(view.segments):
        is_active = segment.base_offset == now.active_offset
        size_bytes = now.active_bytes if is_active else segment.size_bytes
        if segment.base_offset > before.active_offset:
            yield size_bytes
        elif segment.base_offset == before.active_offset:
            yield max(size_bytes - before.active_bytes, 0)
        else:
            return


def _with_lags(reading: PartitionReading, lags: Lags | None) -> PartitionReading:
    return reading if lags is None else replace(reading, lags=lags)
