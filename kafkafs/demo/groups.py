"""`__consumer_offsets`, as a group coordinator of Kafka 3 writes it: committed offsets, and the members of groups.

One group has read everything, one lags, and one has lost its members.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.demo.producer import MINUTE_MS, Producer
from kafkafs.demo.topics import CLICKS, CUSTOMERS, ORDERS
from storage.internal import consumer_protocol, offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.record import Row
    from storage.store import Store

_SETTINGS: Final = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
_COMMIT_COUNT: Final = 20
_COMMIT_EVERY_MS: Final = 5 * MINUTE_MS
_HOST: Final = "/192.0.2.10"

_OFFSET_TYPE: Final = 1
_VALUE_VERSION: Final = 3  # of offsets and of groups
_BLOB_VERSION: Final = 0  # of subscriptions and of assignments
_PROTOCOL: Final = "range"
_REBALANCE_MS: Final = 300_000
_SESSION_MS: Final = 45_000
_NO_USER_DATA: Final = struct.pack(">i", -1)


class Member(NamedTuple):
    """A consumer that has partitions of one topic."""

    member_id: str
    client_id: str
    host: str
    topic: str
    partitions: Sequence[int]


class _Group(NamedTuple):
    name: str
    topic: str
    done: float  # how much of the topic it has read by now
    has_left: bool = False


_GROUPS: Final = (
    _Group("billing", ORDERS, 1.0),
    _Group("statistics", CLICKS, 0.6),
    _Group("newsletter", CUSTOMERS, 0.3, has_left=True),
)


def write_groups(store: Store, now_ms: int) -> None:
    """Make the topic, with the offsets that groups have committed of the other topics, which must be there."""
    store.topics.create(offsets.TOPIC, 1, _SETTINGS)
    coordinator = Producer(store, offsets.TOPIC, 0)
    for group in _GROUPS:
        ends = {
            partition: store.log(group.topic, partition).view.end_offset
            for partition in store.topics.partitions(group.topic)
        }
        for rows in _records(group, ends, now_ms):
            coordinator.send(rows)


def _records(group: _Group, ends: dict[int, int], now_ms: int) -> Iterator[list[Row]]:
    """Yield the coordinator's records of a group, batch by batch."""
    began_ms = now_ms - (_COMMIT_COUNT + 1) * _COMMIT_EVERY_MS
    member = Member(f"{group.name}-1", group.name, _HOST, group.topic, tuple(ends))
    yield [(began_ms, group_key(group.name), group_value(1, [member], changed_ms=began_ms), ())]
    for number in range(1, _COMMIT_COUNT + 1):
        committed_ms = began_ms + number * _COMMIT_EVERY_MS
        part = group.done * number / _COMMIT_COUNT
        yield [
            (
                committed_ms,
                offset_key(group.name, group.topic, partition),
                offset_value(int(end * part), leader_epoch=0, committed_ms=committed_ms),
                (),
            )
            for partition, end in ends.items()
        ]
    if group.has_left:
        left_ms = now_ms - MINUTE_MS
        yield [(left_ms, group_key(group.name), group_value(2, [], changed_ms=left_ms), ())]
        yield [(left_ms, offset_key(group.name, group.topic, partition), None, ()) for partition in ends]
        yield [(left_ms, group_key(group.name), None, ())]


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of the offset that a group has committed of a partition."""
    return offsets.encode_key(_OFFSET_TYPE, {"group": group, "topic": topic, "partition": partition})


def offset_value(offset: int, *, leader_epoch: int, committed_ms: int) -> bytes:
    """Return the value of a committed offset."""
    fields = {"offset": offset, "leaderEpoch": leader_epoch, "metadata": "", "commitTimestamp": committed_ms}
    return offsets.encode_value(_OFFSET_TYPE, _VALUE_VERSION, fields)


def group_key(group: str) -> bytes:
    """Return the key of a group's metadata."""
    return offsets.encode_key(offsets.GROUP_METADATA_TYPE, {"group": group})


def group_value(generation: int, members: Sequence[Member], *, changed_ms: int) -> bytes:
    """Return the metadata of a group, whose first member leads it."""
    fields = {
        "protocolType": consumer_protocol.PROTOCOL_TYPE,
        "generation": generation,
        "protocol": _PROTOCOL if members else None,
        "leader": members[0].member_id if members else None,
        "currentStateTimestamp": changed_ms,
        "members": [_member(member) for member in members],
    }
    return offsets.encode_value(offsets.GROUP_METADATA_TYPE, _VALUE_VERSION, fields)


def _member(member: Member) -> dict[str, object]:
    topic = member.topic.encode()
    subscription = struct.pack(f">hih{len(topic)}s", _BLOB_VERSION, 1, len(topic), topic)
    partitions = struct.pack(f">i{len(member.partitions)}i", len(member.partitions), *member.partitions)
    return {
        "memberId": member.member_id,
        "groupInstanceId": None,
        "clientId": member.client_id,
        "clientHost": member.host,
        "rebalanceTimeout": _REBALANCE_MS,
        "sessionTimeout": _SESSION_MS,
        "subscription": subscription + _NO_USER_DATA,
        "assignment": subscription + partitions + _NO_USER_DATA,
    }
