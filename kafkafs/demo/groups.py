"""`__consumer_offsets`: the progress of consumer groups: one at the end, one that lags, one without members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.demo.clicks import CLICKS
from kafkafs.demo.customers import CUSTOMERS
from kafkafs.demo.group_records import Member, group_key, group_value, offset_key, offset_value
from kafkafs.demo.orders import ORDERS
from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.record import Row
    from storage.store import Store

CONSUMER_OFFSETS: Final = "__consumer_offsets"

_SETTINGS: Final = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
_COMMIT_COUNT: Final = 20
_COMMIT_EVERY_MS: Final = 5 * MINUTE_MS
_HOST: Final = "/192.0.2.10"


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
    """Make the topic, with what groups committed of the other topics, which are there."""
    store.topics.create(CONSUMER_OFFSETS, 1, _SETTINGS)
    coordinator = Producer(store, CONSUMER_OFFSETS, 0)
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
