"""A store's groups and transactions as its internal topics tell them, followed as they grow.

Any thread may ask. What was found serves for a moment, so that asking about many groups reads what is new once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import contextmanager
from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.budget import MEMORY
from storage.clock import Interval
from storage.cluster.followed_topics import OffsetsTopic, SharesTopic, TransactionsTopic
from storage.cluster.group_description import Surroundings, describe_group
from storage.cluster.open_transactions import OpenInPartition, open_transactions
from storage.errors import StorageError, UnknownPartitionError
from storage.internal import offsets, shares, transactions
from storage.internal.groups_image import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias
    from uuid import UUID

    from storage.budget import Lease
    from storage.clock import Clock
    from storage.cluster.group_description import GroupDescription
    from storage.cluster.open_transactions import OpenTransaction
    from storage.errors import MemoryBudgetError
    from storage.internal.groups_image import Group
    from storage.internal.transactions_image import TransactionalId
    from storage.log.followed_log import FollowedLog
    from storage.log.log import Log
    from storage.log_dir.inventory import Inventory
    from storage.record import Batch
    from storage.store.store import Store

    LogOf: TypeAlias = Callable[[str, int], Log | FollowedLog]

logger = logging.getLogger(__name__)

_KEPT_S: Final = 1.0
BELOW_LOG_START: Final = "BelowLogStart"
ABOVE_LOG_END: Final = "AboveLogEnd"
OPEN_TRANSACTIONS_MAX: Final = 10_000
"""How many open transactions of one partition are told: the oldest."""


class LogBounds(NamedTuple):
    """Where a log starts and ends. The start of a tiered log is not known: remote storage may have earlier records."""

    start_offset: int | None
    end_offset: int

    def out_of_range(self, offset: int) -> str | None:
        """Return on which side of the log an offset lies that a consumer cannot go on from; None for all others."""
        if offset > self.end_offset:
            return ABOVE_LOG_END
        return BELOW_LOG_START if self.start_offset is not None and offset < self.start_offset else None


class DescribedGroups(Mapping[str, "GroupDescription"]):
    """Groups by their ids, each described when it is asked for: there may be many more than are."""

    def __init__(
        self, groups: Mapping[str, Group], describe: Callable[[Group], GroupDescription], leases: list[list[Lease]]
    ) -> None:
        self._leases = leases  # of the groups' memory, which is not given back before this is gone
        self._groups = groups
        self._describe = describe

    def __getitem__(self, group_id: str) -> GroupDescription:
        """The group as it is now."""
        return self._describe(self._groups[group_id])

    def __iter__(self) -> Iterator[str]:
        """The ids."""
        return iter(self._groups)

    def __len__(self) -> int:
        """Return the number of them."""
        return len(self._groups)

    def __contains__(self, group_id: object) -> bool:
        """True if there is such a group, which need not be described for that."""
        return group_id in self._groups


class FoundGroups(NamedTuple):
    """Every group by its id. `shortcomings` say, a sentence each, why something may be missing or old.

    `is_there` is whether the store has any partition of `__consumer_offsets`. `revision` is another whenever there may
    be other groups. `too_large` is why the groups of a log are missing which do not fit into the memory budget.
    """

    groups: DescribedGroups
    is_there: bool
    shortcomings: tuple[str, ...]
    revision: int
    too_large: MemoryBudgetError | None = None


class FoundTransactions(NamedTuple):
    """Every open transaction, the oldest first. `shortcomings` say why something may be missing or old."""

    transactions: tuple[OpenTransaction, ...]
    shortcomings: tuple[str, ...]


class InternalTopics:
    """The groups and the open transactions of one store, whose logs `log_of` opens.

    It raises `UnknownPartitionError`, another `StorageError` or `OSError` for a log that it cannot open.
    """

    def __init__(self, store: Store, clock: Clock, log_of: LogOf) -> None:
        self._store = store
        self._clock = clock
        self._log_of = log_of
        self._groups_lock = Lock()  # held while the groups are read
        self._transactions_lock = Lock()
        self._offsets = OffsetsTopic()
        self._shares = SharesTopic()
        self._transactions = TransactionsTopic()
        self._names: dict[UUID, str] = {}
        self._named: Inventory | None = None  # whose topics have these names
        self._groups: tuple[float, FoundGroups] | None = None  # and when that was
        self._account = MEMORY.account(self._give_back)
        self._has_shares = False
        self._described_revision = -1
        self._by_id: dict[str, Group] = {}  # replaced, never changed

    def groups(self) -> FoundGroups:
        """Return the groups in `__consumer_offsets`, as of now or a moment ago."""
        with self._taken(self._groups_lock):
            known = self._groups
            now_s = self._clock.elapsed_s()
            if known is None or now_s - known[0] >= _KEPT_S:
                MEMORY.check_lease()
                known = self._groups = (now_s, self._find_groups())
            return known[1]

    def transactions(self) -> FoundTransactions:
        """The transactions that are open now, by their coordinators and by every log of the store."""
        with self._taken(self._transactions_lock):
            MEMORY.check_lease()
            failures: list[str] = []
            self._transactions.look(self._logs(transactions.TOPIC, failures))
            found = open_transactions(self._transactions.ids(), list(self._opened(failures)))
            return FoundTransactions(tuple(found), (*failures, *self._transactions.shortcomings))

    def transactional_ids(self) -> list[TransactionalId]:
        """Return all transactional ids, as their coordinators wrote them last."""
        with self._taken(self._transactions_lock):
            MEMORY.check_lease()
            self._transactions.look(self._logs(transactions.TOPIC, []))
            return list(self._transactions.ids())

    def bounds(self, partition: tuple[str, int]) -> LogBounds | None:
        """Return where a partition's log starts and ends, None if it is not in this store or cannot be opened."""
        try:
            log = self._log_of(*partition)
            view = log.view
        except (StorageError, OSError):
            return None
        return LogBounds(None if log.config.remote_storage_enable else view.start_offset, view.end_offset)

    @staticmethod
    @contextmanager
    def _taken(lock: Lock) -> Iterator[None]:
        """Hold a lock in a block; raises `MustWaitError` in a thread that may not wait while another reads."""
        MEMORY.acquire(lock)
        try:
            yield
        finally:
            lock.release()

    def _give_back(self, _size_bytes: int) -> None:
        """Forget what takes much memory, unless it is asked for just now. Any thread may call this."""
        if self._groups_lock.acquire(blocking=False):
            try:
                self._forget_groups()
            finally:
                self._groups_lock.release()
        if self._transactions_lock.acquire(blocking=False):
            try:
                self._transactions.forget()
            finally:
                self._transactions_lock.release()

    def _forget_groups(self) -> None:
        if any((*self._offsets.leases(), *self._shares.leases())):
            self._offsets.forget()
            self._shares.forget()
            self._groups, self._by_id, self._described_revision = None, {}, -1

    def _find_groups(self) -> FoundGroups:
        failures: list[str] = []
        logs = self._logs(offsets.TOPIC, failures)
        self._offsets.look(logs)
        shortcomings = self._offsets.shortcomings
        if self._described_revision != self._offsets.revision:
            self._by_id = {group.group_id: group for group in self._offsets.groups()}
            self._has_shares = any(group.records and group.kind is GroupKind.SHARE for group in self._by_id.values())
            self._described_revision = self._offsets.revision
        if self._has_shares:
            self._shares.look(self._logs(shares.TOPIC, failures))
            shortcomings += self._shares.shortcomings
        is_there = offsets.TOPIC in self._store.topics.inventory.topics
        groups = DescribedGroups(self._by_id, self._described, self._offsets.leases())
        revision, too_large = self._offsets.revision, self._offsets.too_large
        return FoundGroups(groups, is_there, (*failures, *shortcomings), revision, too_large)

    def _described(self, group: Group) -> GroupDescription:
        topics = self._store.topics.inventory.topics
        surroundings = Surroundings(self._topic_name, self._shares.start, lambda topic: topics.get(topic, ()))
        with self._taken(self._groups_lock):  # what is followed changes the group
            return describe_group(group, surroundings, self._clock.now_ms())

    def _logs(self, topic: str, failures: list[str]) -> dict[int, Log | FollowedLog]:
        """Return the logs of a topic's partitions; logs that cannot be opened are reported."""
        logs = {}
        for partition in self._store.topics.inventory.topics.get(topic, ()):
            try:
                logs[partition] = self._log_of(topic, partition)
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                failures.append(f"{topic}-{partition} cannot be opened: {error}")
        return logs

    def _topic_name(self, topic_id: UUID) -> str | None:
        """The name of the store's topic that has this id; all are looked through when one is not known yet."""
        topics = self._store.topics
        if topic_id not in self._names and self._named is not topics.inventory:
            self._named = topics.inventory
            for topic in self._named.topics:
                try:
                    found = topics.topic_id(topic)
                except (StorageError, OSError):
                    continue  # it was deleted meanwhile, or its file cannot be read
                if found is not None:
                    self._names[found] = topic
        return self._names.get(topic_id)

    def _opened(self, failures: list[str]) -> Iterator[OpenInPartition]:
        """The transactions that are open in any log of the store."""
        report_due, asked = Interval(), 0
        for topic, partitions in self._store.topics.inventory.topics.items():
            for partition in partitions:
                asked += 1
                if report_due.is_over():
                    logger.info("%d partitions are asked for open transactions", asked)
                try:
                    log = self._log_of(topic, partition)
                    with log.one_look():
                        found = list(_opened_in(topic, partition, log, failures))
                    yield from found
                except UnknownPartitionError:
                    continue  # it was deleted meanwhile
                except (StorageError, OSError) as error:
                    failures.append(f"the producers of {topic}-{partition} cannot be told: {error}")


def _opened_in(topic: str, partition: int, log: Log | FollowedLog, failures: list[str]) -> Iterator[OpenInPartition]:
    """Yield the transactions that are open in a log, the oldest ones if there are very many."""
    states = [state for state in log.producers.states() if state.transaction_offset is not None]
    if len(states) > OPEN_TRANSACTIONS_MAX:
        failures.append(
            f"{topic}-{partition} has {len(states)} open transactions, of which the oldest {OPEN_TRANSACTIONS_MAX} are "
            "told"
        )
    view = log.view
    batch: Batch | None = None  # of the transaction before, which may have begun with the same one
    first: int | None = None
    for state in nsmallest(OPEN_TRANSACTIONS_MAX, states, key=lambda state: state.transaction_offset or 0):
        offset = state.transaction_offset or 0
        first = offset if first is None else first
        if not view.start_offset <= offset < view.end_offset:
            batch = None
        elif batch is None or batch.last_offset < offset:
            batch = view.find(offset)
        began_ms = None if batch is None else _when_written(batch)
        yield OpenInPartition(
            topic, partition, state.producer_id, state.epoch, offset, began_ms, holds_up=offset == first
        )


def _when_written(batch: Batch) -> int | None:
    first = batch.first_timestamp
    timestamp = batch.max_timestamp if first is None else first
    return timestamp if timestamp >= 0 else None
