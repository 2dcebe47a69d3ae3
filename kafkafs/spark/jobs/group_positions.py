"""The positions of a store's groups; workers read the partitions of `__consumer_offsets`."""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.spark.errors import MissingGroupError, MissingTopicError
from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import results_of
from kafkafs.spark.sight import Sighted
from storage.clock import Clock
from storage.cluster import OffsetsLog, Surroundings, describe_group
from storage.config import TopicConfig
from storage.errors import StorageError
from storage.files import Files
from storage.internal import offsets
from storage.log import FollowedLog
from storage.split import packed
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from uuid import UUID

    from pyspark.sql import SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from kafkafs.spark.opened_store import OpenedStore
    from storage.cluster import GroupDescription
    from storage.log_dir import Partition
    from storage.split import PartitionPlace

logger = logging.getLogger(__name__)


class GroupPosition(NamedTuple):
    """A partition with a committed offset of a group, or with a member of it; then the offset may be None."""

    group: str
    partition: Partition
    committed_offset: int | None
    committed_ms: int | None


class _Piece(NamedTuple):
    """A partition of the topic, and the size of its log."""

    place: PartitionPlace
    start_offset: int
    size_bytes: int


class _Found(NamedTuple):
    """The contents of one partition of the topic; `groups` are all those in it."""

    groups: tuple[str, ...]
    positions: tuple[GroupPosition, ...]
    unread: int


def group_positions(
    spark: SparkSession, store: StorePath, planning: OpenedStore, groups: Collection[str] | None
) -> list[GroupPosition]:
    """Return the positions of all groups of a store, or of some, in the order of groups, topics and partitions.

    Raises `MissingTopicError` if the store has no partition of the topic, `MissingGroupError` if it has no such group,
    and Spark's error for a damaged batch, since records after it may be missing.
    """
    partitions = {each for each in planning.partitions(must_exist=False) if each[0] == offsets.TOPIC}
    if not partitions:
        raise MissingTopicError(f"the store has no partition of {offsets.TOPIC}, and so has no groups")
    starts, sizes = planning.earliest(partitions), planning.log_bytes(partitions)
    there = sorted(starts.keys() & sizes.keys())
    pieces = packed(_Piece(planning.place(each), starts[each], sizes[each]) for each in there)
    packs = [Sighted(pack, planning.sights.of_logs(each.place[1:] for each in pack)) for pack in pieces]
    work = partial(_found_in, paths=log_dirs(store), wanted=None if groups is None else frozenset(groups))
    found = [each for pack in results_of(spark, packs, work) for each in pack]
    known = {group for each in found for group in each.groups}
    missing = sorted(set(groups or ()) - known)
    if missing:
        raise MissingGroupError(f"there is no group {missing[0]!r} in this store's partitions of {offsets.TOPIC}")
    unread = sum(each.unread for each in found)
    if unread:
        logger.warning("%s records of %s are of an unknown kind and were skipped", unread, offsets.TOPIC)
    return sorted((position for each in found for position in each.positions), key=lambda it: (it.group, it.partition))


def _found_in(pack: Sequence[_Piece], paths: Sequence[str], wanted: frozenset[str] | None) -> list[_Found]:
    """Read partitions of the topic, in a worker."""
    surroundings = _surroundings(paths)
    return [_read(piece, surroundings, wanted) for piece in pack]


def _read(piece: _Piece, surroundings: Surroundings, wanted: frozenset[str] | None) -> _Found:
    clock = Clock()
    log = FollowedLog(
        clock,
        Files().partition(piece.place.directory),
        TopicConfig.resolve({}),
        start_offset=piece.start_offset,
        producer_expiration_ms=0,
    )
    try:
        replay = OffsetsLog(log)
        replay.advance()
    finally:
        log.close()
    if replay.damages:
        raise replay.damages[0]
    groups = replay.image.groups
    chosen = [group for group_id, group in groups.items() if wanted is None or group_id in wanted]
    described = (describe_group(group, surroundings, clock.now_ms()) for group in chosen)
    return _Found(tuple(groups), tuple(each for group in described for each in _positions(group)), replay.unread)


def _positions(group: GroupDescription) -> Iterator[GroupPosition]:
    had = {partition for member in group.members for partition in member.partitions}
    for partition in group.offsets.keys() | group.starts.keys() | had:
        committed = group.offsets.get(partition)
        if committed is None:
            yield GroupPosition(group.group_id, partition, None, None)
        else:
            time_ms = committed.committed_ms if committed.committed_ms >= 0 else None
            yield GroupPosition(group.group_id, partition, committed.offset, time_ms)


def _surroundings(paths: Sequence[str]) -> Surroundings:
    """Return the store's topics, loaded at the first use, because few groups need them.

    The starts of share groups are not needed: they commit no offsets.
    """

    @cache
    def topics() -> tuple[dict[UUID, str], dict[str, frozenset[int]]]:
        names, numbers = {}, {}
        with Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
            for topic, partitions in store.topics.inventory.topics.items():
                numbers[topic] = frozenset(partitions)
                try:
                    topic_id = store.topics.topic_id(topic)
                except (StorageError, OSError):
                    continue  # it was deleted meanwhile, or its file cannot be read
                if topic_id is not None:
                    names[topic_id] = topic
        return names, numbers

    def topic_name(topic_id: UUID) -> str | None:
        return topics()[0].get(topic_id)

    return Surroundings(
        topic_name=topic_name,
        start_of=lambda _: None,
        partitions_of=lambda topic: topics()[1].get(topic, frozenset()),
    )
