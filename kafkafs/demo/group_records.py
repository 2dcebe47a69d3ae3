"""Records of `__consumer_offsets` as a group coordinator of Kafka 3 writes them: offsets, and who is in a group."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3  # of both kinds
_SUBSCRIPTION_VERSION: Final = 0  # and of assignments
_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "range"
_REBALANCE_MS: Final = 300_000
_SESSION_MS: Final = 45_000
_NO_BYTES: Final = struct.pack(">i", -1)


class Member(NamedTuple):
    """A consumer that has partitions of one topic."""

    member_id: str
    client_id: str
    host: str
    topic: str
    partitions: Sequence[int]


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """The key of the offset that a group has committed of a partition."""
    return b"".join(
        (struct.pack(">h", _OFFSET_KEY_VERSION), _string(group), _string(topic), struct.pack(">i", partition))
    )


def offset_value(offset: int, *, leader_epoch: int, committed_ms: int) -> bytes:
    """The offset that is committed."""
    return b"".join(
        (struct.pack(">hqi", _VALUE_VERSION, offset, leader_epoch), _string(""), struct.pack(">q", committed_ms))
    )


def group_key(group: str) -> bytes:
    """The key of what is known of a group."""
    return struct.pack(">h", _GROUP_KEY_VERSION) + _string(group)


def group_value(generation: int, members: Sequence[Member], *, changed_ms: int) -> bytes:
    """Return the value of a group, whose first member leads it."""
    leader = members[0].member_id if members else None
    return b"".join(
        (
            struct.pack(">h", _VALUE_VERSION),
            _string(_PROTOCOL_TYPE),
            struct.pack(">i", generation),
            _string(_PROTOCOL if members else None),
            _string(leader),
            struct.pack(">qi", changed_ms, len(members)),
            *map(_member, members),
        )
    )


def _member(member: Member) -> bytes:
    version = struct.pack(">h", _SUBSCRIPTION_VERSION)
    subscription = version + struct.pack(">i", 1) + _string(member.topic) + _NO_BYTES
    partitions = struct.pack(f">i{len(member.partitions)}i", len(member.partitions), *member.partitions)
    assignment = version + struct.pack(">i", 1) + _string(member.topic) + partitions + _NO_BYTES
    return b"".join(
        (
            _string(member.member_id),
            _string(None),  # no instance of its own
            _string(member.client_id),
            _string(member.host),
            struct.pack(">ii", _REBALANCE_MS, _SESSION_MS),
            _bytes(subscription),
            _bytes(assignment),
        )
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
