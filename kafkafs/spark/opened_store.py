"""A store as a query is planned on it: its partitions, their offsets, and their splits."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkafs.spark.bounds import EARLIEST_OFFSET, LATEST_OFFSET, AtOffsets, AtTime, Edge, NoMatch, names
from kafkafs.spark.errors import DataLossError, MissingTopicError, OptionError
from kafkafs.spark.limits import parts, within
from kafkafs.spark.sight import Sighted, Sights
from storage.clock import Clock
from storage.errors import UnknownPartitionError
from storage.files import Files
from storage.log import FollowedLog, ReadableLog
from storage.split import PartitionPlace, packed, splits_of
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from uuid import UUID

    from kafkafs.locator.times import Time
    from kafkafs.spark.bounds import Bound
    from kafkafs.spark.options import StoreOptions
    from storage.errors import RecordsGoneError
    from storage.log import LeaderEpochs, LogView
    from storage.log_dir import Partition
    from storage.split import Split

logger = logging.getLogger(__name__)

_SPLIT_BYTES_MIN: Final = 4096  # the index says no more
_EVERY_SEGMENT_BYTES: Final = 1 << 62  # a split for each segment
_LOSS: Final = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed."
)
_FAILED: Final = (
    f'{_LOSS} If you don\'t want your streaming query to fail on such cases, set the source option "failOnDataLoss" '
    'to "false".'
)
_ALL_OFFSETS: Final = (
    "If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
    "Use -1 for latest, -2 for earliest, if you don't care.\n"
)
_ALL_TIMES: Final = "If starting/endingOffsetsByTimestamp contains specific offsets, you must specify all topics. "


def report_loss(loss: RecordsGoneError | str, *, fails: bool) -> None:
    """Raise `DataLossError`, or log what is lost."""
    if fails:
        raise DataLossError(f"{loss}. {_FAILED}")
    logger.warning("%s. %s", loss, _LOSS)


class OpenedStore:
    """The selected partitions of a store, of which not one byte changes."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._clock = Clock()
        self._store = Store.open(options.paths, mode=Mode.READ_ONLY, files=Files(), clock=self._clock)
        self._report = partial(report_loss, fails=options.fails_on_data_loss)
        self.sights = Sights(self._store)

    def close(self) -> None:
        """Release everything."""
        self._store.close()

    def partitions(self, *, must_exist: bool) -> set[Partition]:
        """Return the selected partitions; raises `MissingTopicError` if one is missing that must exist.

        Raises `SeenLessError` if a log directory is not the one that was opened, so that all of it seems to be gone.
        """
        self.sights.of_log_dirs.check()
        self._store.refresh()
        topics = self._store.topics.inventory.topics
        missing = self._options.selection.missing(topics) if must_exist else None
        if missing is not None:
            there = ", ".join(topics) or "none"
            raise MissingTopicError(f"there is no {missing} in the store; its topics are: {there}")
        return self._options.selection.partitions(topics)

    def earliest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the start offsets of the existing partitions."""
        return self._each(partitions, lambda _, log: log.view.start_offset)

    def latest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offsets up to which the existing partitions can be read."""
        return self._each(partitions, lambda _, log: self._end(log))

    def lineage(self, partition: Partition) -> tuple[UUID | None, LeaderEpochs]:
        """Return the id of a partition's topic, None if it has none, and its leader epochs."""
        log = self._store.log(*partition)
        assert isinstance(log, FollowedLog)
        return self._store.topics.topic_id(partition[0]), log.epochs

    def log_bytes(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the bytes that the batches of existing partitions take on disk."""
        return self._each(partitions, lambda _, log: log.on_view(_size_bytes))

    def place(self, partition: Partition) -> PartitionPlace:
        """Return a partition's directory; raises `UnknownPartitionError`."""
        _, log_dir = self._store.topics.location(*partition)
        return PartitionPlace(str(log_dir.path), *partition)

    def resolve(self, bound: Bound, partitions: Collection[Partition], no_match: NoMatch) -> dict[Partition, int]:
        """Return the offsets that a bound means in existing partitions; raises `OptionError`."""
        if bound is Edge.EARLIEST:
            return self.earliest(partitions)
        if bound is Edge.LATEST:
            return self.latest(partitions)
        now_ms = self._clock.now_ms()
        if isinstance(bound, AtTime):
            time = bound.time
            return self._each(partitions, lambda partition, log: self._at(partition, log, time, now_ms, no_match))
        if isinstance(bound, AtOffsets):
            offsets = bound.offsets
            _check_all(partitions, offsets, _ALL_OFFSETS)
            return self._each(partitions, lambda partition, log: self._specific(log, offsets[partition]))
        times = bound.times
        _check_all(partitions, times, _ALL_TIMES)
        return self._each(
            partitions, lambda partition, log: self._at(partition, log, times[partition], now_ms, no_match)
        )

    def packs(self, ranges: Mapping[Partition, tuple[int, int]]) -> list[Sighted[tuple[Split, ...]]]:
        """Return the splits of ranges of offsets in packs, each worth a task and within its limits."""
        return self.sighted(self._sized_packs(ranges))

    def sighted(self, packs: Iterable[tuple[Split, ...]]) -> list[Sighted[tuple[Split, ...]]]:
        """Return packs of splits with what was seen of their logs."""
        return [Sighted(pack, self.sights.of_splits(pack)) for pack in packs]

    def _sized_packs(self, ranges: Mapping[Partition, tuple[int, int]]) -> list[tuple[Split, ...]]:
        wanted, size_bytes = self._options.partitions_min or 1, self._options.split_bytes
        packs = self._packs(ranges, size_bytes)
        size_bytes = min(size_bytes, sum(split.size_bytes for pack in packs for split in pack) // wanted)
        while len(packs) < wanted and size_bytes >= _SPLIT_BYTES_MIN:
            packs = self._packs(ranges, size_bytes)
            size_bytes //= 2
        return packs

    def _packs(self, ranges: Mapping[Partition, tuple[int, int]], size_bytes: int) -> list[tuple[Split, ...]]:
        records_max = self._options.records_max
        if records_max is None:
            return packed(self.splits(ranges, size_bytes), size_bytes)
        splits = [split for part in parts(ranges, records_max) for split in self.splits(part, size_bytes)]
        return list(within(packed(splits, size_bytes), records_max))

    def bytes_between(self, ranges: Mapping[Partition, tuple[int, int]]) -> int:
        """Return about how much of the log holds ranges of offsets: as exact as the indexes are."""
        splits = self.splits(ranges, _EVERY_SEGMENT_BYTES, on_loss=lambda _: None)
        return sum(split.size_bytes for split in splits)

    def splits(
        self,
        ranges: Mapping[Partition, tuple[int, int]],
        size_bytes: int,
        on_loss: Callable[[RecordsGoneError | str], None] | None = None,
    ) -> list[Split]:
        """Return the splits of ranges of offsets, each of `size_bytes` or more if its segment has them."""
        report = self._report if on_loss is None else on_loss
        splits = []
        for (topic, partition), (start, end) in sorted(ranges.items()):
            if start >= end:
                continue
            try:
                log = self._log((topic, partition))
                place = self.place((topic, partition))
            except UnknownPartitionError:
                report(f"{topic}-{partition} is gone")
                continue
            splits += splits_of(
                log,
                place,
                start,
                end,
                size_bytes=size_bytes,
                isolation=self._options.isolation,
                checks_end=not self._options.skips_damage,
                on_loss=report,
            )
        return splits

    def _log(self, partition: Partition) -> ReadableLog:
        log = self._store.log(*partition)
        assert isinstance(log, ReadableLog)
        return log

    def _each(
        self, partitions: Collection[Partition], ask: Callable[[Partition, ReadableLog], int]
    ) -> dict[Partition, int]:
        found = {}
        for partition in sorted(partitions):
            try:
                found[partition] = ask(partition, self._log(partition))
            except UnknownPartitionError:
                continue  # it was removed just now; a reader that needs it raises the error
        return found

    def _end(self, log: ReadableLog) -> int:
        isolation = self._options.isolation
        return log.on_view(lambda view: max(view.bound(isolation), view.start_offset))

    def _specific(self, log: ReadableLog, offset: int) -> int:
        match offset:
            case _ if offset == LATEST_OFFSET:
                return self._end(log)
            case _ if offset == EARLIEST_OFFSET:
                return log.view.start_offset
            case _:
                return offset

    def _at(self, partition: Partition, log: ReadableLog, time: Time, now_ms: int, no_match: NoMatch) -> int:
        time_ms, end = time.resolve(now_ms), self._end(log)
        found = log.find_timestamp(time_ms)
        if found is not None and found.offset < end:
            return found.offset
        if no_match is NoMatch.ERROR:
            raise OptionError(
                f"No offset matched from request of topic-partition {names([partition])} and timestamp {time_ms}."
            )
        return end


def _size_bytes(view: LogView) -> int:
    return sum(segment.size_bytes for segment in view.segments[:-1]) + view.end_position


def _check_all(partitions: Collection[Partition], given: Collection[Partition], text: str) -> None:
    if set(partitions) != set(given):
        raise OptionError(f"{text}Specified: {names(given)} Assigned: {names(partitions)}")
