"""What stands in the logs that were revived: producers, open transactions, groups with offsets beyond an end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from storage.internal import offsets, transactions
from storage.log import FollowedLog, Log
from storage.record import NO_PRODUCER_ID
from storage.store import InternalTopics, Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from storage.clock import Clock
    from storage.cluster import OpenTransaction
    from storage.files import Files
    from storage.log_dir import Partition


class Ahead(NamedTuple):
    """A committed offset after the end of its partition's log."""

    group: str
    partition: Partition
    offset: int
    end_offset: int


class Outcome(NamedTuple):
    """The groups and transactions of a revived store. `shortcomings` are sentences about what may be missing."""

    groups: int
    ahead: tuple[Ahead, ...]
    open_transactions: tuple[OpenTransaction, ...]
    has_coordinators: bool
    has_groups: bool
    shortcomings: tuple[str, ...]


def largest_producer_id(log_dirs: Sequence[Path], files: Files, clock: Clock) -> int:
    """Return the largest producer id that the logs and the transactional ids in them have, -1 without any."""
    with _opened(log_dirs, files, clock) as (store, topics):
        largest = NO_PRODUCER_ID
        for partition in store.topics.inventory.partitions():
            states = store.log(*partition).producers.states()
            largest = max([largest, *(state.producer_id for state in states)])
        return max([largest, *(each.producer_id for each in topics.transactional_ids())])


def look(log_dirs: Sequence[Path], files: Files, clock: Clock) -> Outcome:
    """Look at a store that was revived."""
    with _opened(log_dirs, files, clock) as (store, topics):
        groups = topics.groups()
        ahead = []
        for group_id in sorted(groups.groups):
            for (topic, partition), committed in sorted(groups.groups[group_id].offsets.items()):
                bounds = topics.bounds((topic, partition))
                if bounds is not None and committed.offset > bounds.end_offset:
                    ahead.append(Ahead(group_id, (topic, partition), committed.offset, bounds.end_offset))
        found = topics.transactions()
        there = store.topics.inventory.topics
        return Outcome(
            groups=len(groups.groups),
            ahead=tuple(ahead),
            open_transactions=found.transactions,
            has_coordinators=transactions.TOPIC in there,
            has_groups=offsets.TOPIC in there,
            shortcomings=(*groups.shortcomings, *found.shortcomings),
        )


def committing_groups(log_dirs: Sequence[Path], files: Files, clock: Clock) -> dict[str, set[str]]:
    """Return the groups with committed offsets in a store that was revived, and in which topics each has some."""
    with _opened(log_dirs, files, clock) as (_, topics):
        groups = topics.groups().groups
        return {group_id: {topic for topic, _ in group.offsets} for group_id, group in groups.items() if group.offsets}


@contextmanager
def _opened(log_dirs: Sequence[Path], files: Files, clock: Clock) -> Iterator[tuple[Store, InternalTopics]]:
    with Store.open(log_dirs, mode=Mode.READ_ONLY, files=files, clock=clock) as store:

        def log_of(topic: str, partition: int) -> Log | FollowedLog:
            log = store.log(topic, partition)
            assert isinstance(log, Log | FollowedLog)
            return log

        yield store, InternalTopics(store, clock, log_of)
