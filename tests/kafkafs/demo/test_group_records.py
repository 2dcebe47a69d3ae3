"""The records of groups, taken apart by the decoders of other clients."""

from __future__ import annotations

import io
import struct

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.protocol.types import Array, Bytes, Int16, Int32, Int64, Schema, String

from kafkafs.demo.groups import Member, group_key, group_value, offset_key, offset_value

pytestmark = pytest.mark.golden

TEXT = String("utf-8")
OFFSET_KEY = Schema(("version", Int16), ("group", TEXT), ("topic", TEXT), ("partition", Int32))
OFFSET_VALUE = Schema(("version", Int16), ("offset", Int64), ("epoch", Int32), ("metadata", TEXT), ("committed", Int64))
GROUP_KEY = Schema(("version", Int16), ("group", TEXT))
GROUP_VALUE = Schema(
    ("version", Int16),
    ("type", TEXT),
    ("generation", Int32),
    ("protocol", TEXT),
    ("leader", TEXT),
    ("changed", Int64),
    (
        "members",
        Array(
            ("member", TEXT),
            ("instance", TEXT),
            ("client", TEXT),
            ("host", TEXT),
            ("rebalance", Int32),
            ("session", Int32),
            ("subscription", Bytes),
            ("assignment", Bytes),
        ),
    ),
)


def decoded(schema: Schema, data: bytes) -> tuple[object, ...]:
    stream = io.BytesIO(data)
    values = schema.decode(stream)
    assert stream.read() == b""
    return tuple(values)


def test_offsets() -> None:
    assert decoded(OFFSET_KEY, offset_key("größe", "orders", 7)) == (1, "größe", "orders", 7)
    assert decoded(OFFSET_VALUE, offset_value(2**40, leader_epoch=3, committed_ms=9)) == (3, 2**40, 3, "", 9)


def test_groups() -> None:
    member = Member("m-1", "client", "/192.0.2.1", "orders", (0, 2))
    assert decoded(GROUP_KEY, group_key("billing")) == (2, "billing")
    *group, members = decoded(GROUP_VALUE, group_value(4, [member], changed_ms=9))
    assert group == [3, "consumer", 4, "range", "m-1", 9]
    ((*about, subscription, assignment),) = members
    assert about == ["m-1", None, "client", "/192.0.2.1", 300_000, 45_000]
    assert ConsumerProtocolMemberMetadata.decode(subscription).subscription == ["orders"]
    assert ConsumerProtocolMemberAssignment.decode(assignment).assignment == [("orders", [0, 2])]


def test_a_group_that_everybody_left() -> None:
    assert decoded(GROUP_VALUE, group_value(5, [], changed_ms=9)) == (3, "consumer", 5, None, None, 9, [])
    assert struct.unpack(">h", group_value(5, [], changed_ms=9)[:2]) == (3,)
