"""The state that the records of `__consumer_offsets` build up: groups of every kind and their committed offsets.

`GroupsImage.apply` takes the records of one partition of the topic in the order of their offsets, and `end_transaction`
its transaction markers: offsets that a transaction commits count once it commits. All records about a group are in one
partition, so images of several partitions add up. Decoding is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.internal.measuring import table_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.internal.outcome import Fields


TopicPartition = tuple[str, int]

OFFSETS: Final = "OffsetCommit"
_MODERN: Final = ("ConsumerGroup", "ShareGroup", "StreamsGroup")
_NO_TIME: Final = -1
_GROUP_BYTES: Final = 512
_OPEN_BYTES: Final = 256
_COMMIT_BYTES: Final = 320
"""What a group, what a transaction commits, and a committed offset take, about, without their texts."""
COMMITTED_BYTES_MAX: Final = _GROUP_BYTES + _OPEN_BYTES + _COMMIT_BYTES
"""What the record of a committed offset adds at most, without its texts."""


class GroupKind(Enum):
    """The kind of a group, as Kafka's tools write it."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class CommittedOffset(NamedTuple):
    """An offset that a group has committed, by the record at `record_offset`.

    `expires_ms` is -1 unless a broker before 2.1 wrote when it expires.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int
    record_offset: int


@dataclass(slots=True)
class Group:
    """A group by its records.

    `records` are the values by the kind of record, named after its schema without `Key` or `Value`, and by the rest of
    the key after the group. `pending` are offsets of transactions that have not ended, by partition and producer id.
    """

    group_id: str
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    records: dict[str, dict[tuple[Any, ...], Fields]] = field(default_factory=dict)
    pending: dict[TopicPartition, dict[int, CommittedOffset]] = field(default_factory=dict)

    @property
    def kind(self) -> GroupKind:
        """The kind; a group that only commits offsets, without members, is a classic one."""
        for prefix, kind in zip(_MODERN, (GroupKind.CONSUMER, GroupKind.SHARE, GroupKind.STREAMS), strict=True):
            if any(name.startswith(prefix) for name in self.records):
                return kind
        return GroupKind.CLASSIC

    @property
    def is_empty(self) -> bool:
        """True if the group has no records left."""
        return not (self.offsets or self.records or self.pending)

    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        size_bytes = _GROUP_BYTES + getsizeof(self.group_id)
        for (topic, _), committed in self.offsets.items():
            size_bytes += _COMMIT_BYTES + getsizeof(topic) + getsizeof(committed.metadata)
        for (topic, _), by_producer in self.pending.items():
            size_bytes += _COMMIT_BYTES + getsizeof(topic)
            size_bytes += sum(_COMMIT_BYTES + getsizeof(committed.metadata) for committed in by_producer.values())
        return size_bytes + sum(map(table_bytes, self.records.values()))

    def values(self, name: str) -> Mapping[tuple[Any, ...], Fields]:
        """Return the values of a kind of record, by the rest of their keys."""
        return self.records.get(name, {})

    def value(self, name: str) -> Fields | None:
        """Return the value of a kind of record that each group has one of."""
        return self.values(name).get(())


@dataclass(slots=True)
class GroupsImage:
    """The groups in one partition of `__consumer_offsets`, up to `end_offset`; not for several threads."""

    groups: dict[str, Group] = field(default_factory=dict)
    end_offset: int = 0
    _open: dict[int, set[tuple[str, TopicPartition]]] = field(default_factory=dict)  # what a transaction commits

    def apply(self, name: str, key: Fields, value: Fields | None, offset: int, producer_id: int | None = None) -> None:
        """Apply the next record: `name` is its schemas' without `Key` and `Value`; no value is a tombstone.

        `producer_id` is given for a record in a transaction: the offset that it commits counts when that commits. A
        tombstone counts at once.
        """
        self.end_offset = offset + 1
        group_id, *rest = key.values()
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        if name == OFFSETS and value is None:
            _forget(group, (rest[0], rest[1]))
        elif name == OFFSETS and value is not None:
            self._commit(group, (rest[0], rest[1]), _committed(value, offset), producer_id)
        elif value is None:
            self._remove(group, name, tuple(rest))
        else:
            group.records.setdefault(name, {})[tuple(rest)] = value
        if group.is_empty:
            del self.groups[group_id]

    def end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Apply the marker at `offset` that ends a producer's transaction.

        An offset that a group committed without a transaction after the transaction's own commit stays, as in brokers.
        """
        self.end_offset = offset + 1
        for group_id, partition in self._open.pop(producer_id, ()):
            group = self.groups.get(group_id)
            committed = None if group is None else _ended(group, partition, producer_id)
            if group is None or committed is None:
                continue  # a tombstone came after it
            known = group.offsets.get(partition)
            if is_commit and (known is None or known.record_offset < committed.record_offset):
                group.offsets[partition] = committed
            if group.is_empty:
                del self.groups[group_id]

    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        opened = sum(_OPEN_BYTES * (1 + len(commits)) for commits in self._open.values())
        return opened + sum(group.size_bytes() for group in self.groups.values())

    def _commit(
        self, group: Group, partition: TopicPartition, committed: CommittedOffset, producer_id: int | None
    ) -> None:
        if producer_id is None:
            group.offsets[partition] = committed
        else:
            group.pending.setdefault(partition, {})[producer_id] = committed
            self._open.setdefault(producer_id, set()).add((group.group_id, partition))

    def _remove(self, group: Group, name: str, rest: tuple[Any, ...]) -> None:
        values = group.records.get(name)
        if values is not None:
            values.pop(rest, None)
            if not values:
                del group.records[name]


def _forget(group: Group, partition: TopicPartition) -> None:
    """Apply a tombstone of an offset, which also removes what open transactions have committed for it."""
    group.offsets.pop(partition, None)
    group.pending.pop(partition, None)


def _ended(group: Group, partition: TopicPartition, producer_id: int) -> CommittedOffset | None:
    """Remove and return what a producer's transaction has committed for the partition, if anything."""
    by_producer = group.pending.get(partition, {})
    committed = by_producer.pop(producer_id, None)
    if committed is not None and not by_producer:
        del group.pending[partition]
    return committed


def _committed(value: Fields, offset: int) -> CommittedOffset:
    return CommittedOffset(
        value["offset"],
        value.get("leaderEpoch", _NO_TIME),
        value["metadata"],
        value["commitTimestamp"],
        value.get("expireTimestamp", _NO_TIME),
        offset,
    )
