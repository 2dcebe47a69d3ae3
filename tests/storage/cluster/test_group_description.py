"""Groups of each kind as Kafka's tools describe them, from their records."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from consumer_blobs import encode_assignment

from storage.cluster.group_description import Surroundings, describe_group, group_rows
from storage.ids import format_id
from storage.internal.groups_image import GroupsImage
from storage.internal.shares_image import ShareStart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.cluster.group_description import GroupDescription
    from storage.internal.shares_image import SharePartition

ORDERS = UUID(int=7)
UNKNOWN = UUID(int=8)


def described(
    *records: tuple[str, tuple[object, ...], dict[str, Any]],
    now_ms: int = 1000,
    starts: Mapping[SharePartition, ShareStart] = MappingProxyType({}),
) -> GroupDescription:
    image = GroupsImage()
    for offset, (name, rest, value) in enumerate(records):
        image.apply(name, {"group": "g"} | {str(at): part for at, part in enumerate(rest)}, value, offset)
    store = Surroundings({ORDERS: "orders"}.get, starts.get, lambda topic: {"orders": (3,)}.get(topic, ()))
    return describe_group(image.groups["g"], store, now_ms)


def offset(number: int, expires_ms: int = -1) -> dict[str, Any]:
    return {"offset": number, "metadata": "", "commitTimestamp": 10, "expireTimestamp": expires_ms}


def member(assignment: bytes, **more: object) -> dict[str, Any]:
    said = {"memberId": "m-1", "groupInstanceId": None, "clientId": "c", "clientHost": "/h", "assignment": assignment}
    return said | more


def test_a_classic_group_is_stable_with_members_and_empty_without() -> None:
    assignment = encode_assignment(0, {"assignedPartitions": [{"topic": "orders", "partitions": [0, 1]}]})
    value = {"protocolType": "consumer", "members": [member(assignment), member(b"", memberId="m-2")]}
    group = described(("GroupMetadata", (), value), ("OffsetCommit", ("orders", 0), offset(5)))
    assert (group.kind.value, group.state) == ("Classic", "Stable")
    assert [each.partitions for each in group.members] == [(("orders", 0), ("orders", 1)), ()]
    rows = list(group_rows(group, {("orders", 0): 9}.get))
    assert [(row.topic, row.partition, row.lag, row.member and row.member.member_id) for row in rows] == [
        ("orders", 0, 4, "m-1"),
        ("orders", 1, None, "m-1"),
        (None, None, None, "m-2"),
    ]
    assert described(("GroupMetadata", (), value | {"members": []})).state == "Empty"
    assert described(("OffsetCommit", ("orders", 0), offset(5))).state == "Empty"


@pytest.mark.parametrize("assignment", [b"\0", b"\0\0\0\0\0\x09", b"\xff\xff"])
def test_an_assignment_that_cannot_be_read_names_no_partitions(assignment: bytes) -> None:
    group = described(("GroupMetadata", (), {"protocolType": "consumer", "members": [member(assignment)]}))
    assert group.members[0].partitions == ()


def test_the_blobs_of_other_protocols_are_left_alone() -> None:
    assignment = encode_assignment(0, {"assignedPartitions": [{"topic": "orders", "partitions": [0]}]})
    group = described(("GroupMetadata", (), {"protocolType": "connect", "members": [member(assignment)]}))
    assert group.members[0].partitions == ()


def test_an_offset_whose_own_time_has_come_is_not_there() -> None:
    records = (("OffsetCommit", ("orders", 0), offset(5, 1000)), ("OffsetCommit", ("orders", 1), offset(5, 1001)))
    assert list(described(*records).offsets) == [("orders", 1)]
    [row] = group_rows(described(records[0]), {}.get)
    assert (row.topic, row.member, row.group.state) == (None, None, "Empty")


@pytest.mark.parametrize(
    ("epoch", "target", "state", "member_epoch", "expected"),
    [(3, 3, 0, 3, "Stable"), (4, 3, 0, 3, "Assigning"), (3, 3, 1, 3, "Reconciling"), (3, 3, 0, 2, "Reconciling")],
)
def test_the_state_of_a_consumer_group(epoch: int, target: int, state: int, member_epoch: int, expected: str) -> None:
    assigned = [{"topicId": ORDERS, "partitions": [1]}, {"topicId": UNKNOWN, "partitions": [0]}]
    current = {"memberEpoch": member_epoch, "state": state, "assignedPartitions": assigned}
    group = described(
        ("ConsumerGroupMetadata", (), {"epoch": epoch}),
        ("ConsumerGroupMemberMetadata", ("m",), {"instanceId": "i", "clientId": "c", "clientHost": "/h"}),
        ("ConsumerGroupTargetAssignmentMetadata", (), {"assignmentEpoch": target}),
        ("ConsumerGroupCurrentMemberAssignment", ("m",), current),
    )
    assert (group.kind.value, group.state) == ("Consumer", expected)
    [found] = group.members
    assert (found.instance_id, found.partitions) == ("i", (("orders", 1), (format_id(UNKNOWN), 0)))


def test_a_consumer_group_without_members_is_empty() -> None:
    assert described(("ConsumerGroupMetadata", (), {"epoch": 3})).state == "Empty"


def test_a_member_that_has_nothing_yet_is_not_reconciled() -> None:
    group = described(
        ("ConsumerGroupMetadata", (), {"epoch": 1}),
        ("ConsumerGroupMemberMetadata", ("m",), {"instanceId": None, "clientId": "c", "clientHost": "/h"}),
        ("ConsumerGroupTargetAssignmentMetadata", (), {"assignmentEpoch": 1}),
    )
    assert (group.state, group.members[0].partitions) == ("Reconciling", ())


def test_a_share_group_knows_the_names_of_its_topics() -> None:
    topics = [{"topicId": UNKNOWN, "topicName": "shared", "partitions": [0]}]
    group = described(
        ("ShareGroupMetadata", (), {"epoch": 9}),
        ("ShareGroupMemberMetadata", ("m",), {"clientId": "c", "clientHost": "/h"}),
        ("ShareGroupMemberMetadata", ("n",), {"clientId": "d", "clientHost": "/h"}),
        (
            "ShareGroupCurrentMemberAssignment",
            ("m",),
            {"assignedPartitions": [{"topicId": UNKNOWN, "partitions": [0]}]},
        ),
        (
            "ShareGroupCurrentMemberAssignment",
            ("n",),
            {"assignedPartitions": [{"topicId": UNKNOWN, "partitions": [0]}]},
        ),
        ("ShareGroupStatePartitionMetadata", (), {"initializedTopics": topics}),
    )
    assert (group.kind.value, group.state) == ("Share", "Stable")
    assert [(row.topic, row.member and row.member.client_id) for row in group_rows(group, {}.get)] == [
        ("shared", "c"),
        ("shared", "d"),
    ]


@pytest.mark.parametrize(
    ("start", "start_offset", "lag"),
    [
        (ShareStart(3, 2), 3, 5),
        (ShareStart(3, -1), 3, None),  # as a broker before 4.2 writes
        (ShareStart(-1, 0), None, None),  # nothing was read yet
        (None, None, None),
    ],
)
def test_a_share_group_has_come_as_far_as_its_coordinator_says(
    start: ShareStart | None, start_offset: int | None, lag: int | None
) -> None:
    topics = [{"topicId": ORDERS, "topicName": "orders", "partitions": [1]}]
    group = described(
        ("ShareGroupMetadata", (), {"epoch": 9}),
        ("ShareGroupStatePartitionMetadata", (), {"initializedTopics": topics}),
        starts={} if start is None else {("g", ORDERS, 1): start},
    )
    assert group.state == "Empty"
    [row] = group_rows(group, {("orders", 1): 10}.get)
    assert (row.topic, row.partition, row.committed, row.end_offset) == ("orders", 1, None, 10)
    assert (row.start_offset, row.lag) == (start_offset, lag)


@pytest.mark.parametrize(
    ("validated", "state", "expected"), [(1, 1, "Stable"), (1, 2, "Reconciling"), (0, 1, "NotReady")]
)
def test_a_streams_group_has_what_its_tasks_read(validated: int, state: int, expected: str) -> None:
    subtopology = {"subtopologyId": "0", "sourceTopics": ["orders"], "repartitionSourceTopics": [{"name": "by-key"}]}
    group = described(
        ("StreamsGroupMetadata", (), {"epoch": 2, "validatedTopologyEpoch": validated}),
        ("StreamsGroupTopology", (), {"epoch": 1, "subtopologies": [subtopology]}),
        ("StreamsGroupMemberMetadata", ("m",), {"instanceId": None, "clientId": "c", "clientHost": "/h"}),
        ("StreamsGroupTargetAssignmentMetadata", (), {"assignmentEpoch": 2}),
        (
            "StreamsGroupCurrentMemberAssignment",
            ("m",),
            {"memberEpoch": 2, "state": state, "activeTasks": [{"subtopologyId": "0", "partitions": [0, 1, 3]}]},
        ),
        ("OffsetCommit", ("orders", 1), offset(5)),
        ("OffsetCommit", ("by-key", 0), offset(6)),
    )
    assert (group.kind.value, group.state) == ("Streams", expected)
    assert set(group.members[0].partitions) == {("orders", 1), ("orders", 3), ("by-key", 0)}
