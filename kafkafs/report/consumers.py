"""The groups and the open transactions of a report, as the store's internal topics and its logs tell them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from kafkafs.report.facts import GroupFacts, TransactionFacts
from storage.cluster import group_rows
from storage.errors import StorageError, UnknownPartitionError
from storage.internal import offsets, shares, transactions
from storage.log import FollowedLog, Log
from storage.store import InternalTopics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.report.facts import PartitionFacts
    from storage.clock import Clock
    from storage.cluster import GroupRow, OpenTransaction
    from storage.log_dir import Partition
    from storage.store import Store

INTERNAL_BYTES_MAX: Final = 1024 * 1024 * 1024
"""What is read of internal topics unless everything is."""
UNREAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""A partition's producers are asked for if no more of its log has to be read for them, unless everything is read."""


class Consumers:
    """The groups and the transactions of a store; `shortcomings` say what was left out.

    `known` are the partitions that were looked at.
    """

    def __init__(self, store: Store, clock: Clock, known: Mapping[Partition, PartitionFacts], *, is_full: bool) -> None:
        self.shortcomings: list[str] = []
        self.has_groups = False
        self._store = store
        self._clock = clock
        self._known = known
        self._is_full = is_full
        self._left_bytes = INTERNAL_BYTES_MAX
        self._allowed: set[Partition] = set()
        self._unasked = 0

    def groups(self) -> tuple[GroupFacts, ...]:
        """Return the rows of all groups, in the order of their ids."""
        topics = InternalTopics(self._store, self._clock, self._internal_log)
        found = topics.groups()
        self.has_groups = found.is_there
        self.shortcomings += found.shortcomings
        now_ms = self._clock.now_ms()
        return tuple(
            _group(row, now_ms)
            for group_id in sorted(found.groups)
            for row in group_rows(found.groups[group_id], self._end_offset)
        )

    def transactions(self) -> tuple[TransactionFacts, ...]:
        """Return the open transactions, the oldest first."""
        found = InternalTopics(self._store, self._clock, self._asked_log).transactions()
        self.shortcomings += found.shortcomings
        if self._unasked:
            self.shortcomings.append(
                f"the producers of {self._unasked} partitions were not asked for open transactions, as more than "
                f"{UNREAD_BYTES_MAX // 2**20} MiB of each log would have to be read; --full does it"
            )
        now_ms = self._clock.now_ms()
        return tuple(_transaction(each, now_ms) for each in found.transactions)

    def _end_offset(self, partition: Partition) -> int | None:
        if partition in self._known:
            return self._known[partition].end_offset
        try:
            return self._store.log(*partition).view.end_offset
        except (StorageError, OSError):
            return None

    def _internal_log(self, topic: str, partition: int) -> Log | FollowedLog:
        """Return the log of an internal topic; raises `StorageError` if too much would be read."""
        log = self._log(topic, partition)
        if not self._is_full and (topic, partition) not in self._allowed:
            self._left_bytes -= sum(segment.size_bytes for segment in log.view.segments)
            if self._left_bytes < 0:
                raise StorageError("it is large, and left out; --full reads it")
            self._allowed.add((topic, partition))
        return log

    def _asked_log(self, topic: str, partition: int) -> Log | FollowedLog:
        """Return a log for its producers; those that would have to be read at length do not count as there."""
        if topic in (offsets.TOPIC, shares.TOPIC, transactions.TOPIC):
            return self._internal_log(topic, partition)
        log = self._log(topic, partition)
        facts = self._known.get((topic, partition))
        is_short = self._is_full or (facts is not None and facts.size_bytes <= UNREAD_BYTES_MAX)
        if not is_short and isinstance(log, FollowedLog) and log.unread_bytes > UNREAD_BYTES_MAX:
            self._unasked += 1
            raise UnknownPartitionError("its producers are not asked for")
        return log

    def _log(self, topic: str, partition: int) -> Log | FollowedLog:
        log = self._store.log(topic, partition)
        assert isinstance(log, Log | FollowedLog)
        return log


def _group(row: GroupRow, now_ms: int) -> GroupFacts:
    committed, member = row.committed, row.member
    age_seconds = None
    if committed is not None and committed.committed_ms >= 0:
        age_seconds = (now_ms - committed.committed_ms) // 1000
    return GroupFacts(
        group=row.group.group_id,
        state=row.group.state,
        kind=row.group.kind.value,
        topic=row.topic,
        partition=row.partition,
        committed_offset=row.start_offset if committed is None else committed.offset,
        end_offset=row.end_offset,
        lag=row.lag,
        age_seconds=age_seconds,
        client_id=None if member is None else member.client_id,
        host=None if member is None else member.host,
    )


def _transaction(each: OpenTransaction, now_ms: int) -> TransactionFacts:
    coordinated, began_ms = each.coordinated, each.began_ms
    return TransactionFacts(
        transactional_id=None if coordinated is None else coordinated.transactional_id,
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        state=None if coordinated is None else coordinated.state_name,
        age_seconds=None if began_ms is None else (now_ms - began_ms) // 1000,
        timeout_ms=None if coordinated is None else coordinated.timeout_ms,
        partitions=tuple(f"{topic}-{partition}" for topic, partition in each.partitions),
        holds_up=tuple(
            f"{at.topic}-{at.partition} from offset {at.first_offset}" for at in each.in_partitions if at.holds_up
        ),
        next_steps=tuple(_next_steps(each)),
    )


def _next_steps(each: OpenTransaction) -> Iterator[str]:
    """Yield the commands that end a transaction, for a broker to be filled in."""
    for at in each.in_partitions:
        yield (
            f"kafka-transactions.sh --bootstrap-server BROKER:9092 abort --topic {shlex.quote(at.topic)} "
            f"--partition {at.partition} --start-offset {at.first_offset}"
        )
