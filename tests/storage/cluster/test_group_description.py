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


def streams(topology: list[dict[str, Any]], tasks: list[dict[str, Any]], *commits: tuple[str, int]) -> GroupDescription:
    said = {"instanceId": None, "clientId": "c", "clientHost": "/h"}
    current = {"memberEpoch": 1, "state": 0, "activeTasks": tasks}
    return described(
        ("StreamsGroupTopology", (), {"epoch": 1, "subtopologies": topology}),
        *(("StreamsGroupMemberMetadata", (member_id,), said) for member_id in ("m", "n")),
        *(("StreamsGroupCurrentMemberAssignment", (member_id,), current) for member_id in ("m", "n")),
        *(("OffsetCommit", commit, offset(5)) for commit in commits),
    )


def test_a_topic_that_very_many_subtopologies_claim_is_looked_through_once() -> None:
    count = 300
    topology = [
        {"subtopologyId": str(each), "sourceTopics": ["t"], "repartitionSourceTopics": []} for each in range(count)
    ]
    looks: list[str] = []

    tasks = [{"subtopologyId": str(each), "partitions": [0, -1]} for each in range(count)]
    image = GroupsImage()
    image.apply("StreamsGroupTopology", {"group": "g"}, {"epoch": 1, "subtopologies": topology}, 0)
    for member_id in ("m", "n"):
        key = {"group": "g", "member": member_id}
        image.apply("StreamsGroupMemberMetadata", key, {"clientId": "c", "clientHost": "/h"}, 1)
        image.apply("StreamsGroupCurrentMemberAssignment", key, {"memberEpoch": 1, "state": 0, "activeTasks": tasks}, 2)

    def partitions_of(topic: str) -> tuple[int, ...]:
        looks.append(topic)
        return (0, 1)

    group = describe_group(image.groups["g"], Surroundings({}.get, {}.get, partitions_of), 0)
    assert looks == ["t"]
    assert [each.partitions for each in group.members] == [(("t", 0),), ()]


def test_each_subtopology_has_its_own_topics() -> None:
    topology = [
        {"subtopologyId": "0", "sourceTopics": ["orders", "b"], "repartitionSourceTopics": []},
        {"subtopologyId": "1", "sourceTopics": ["c"], "repartitionSourceTopics": [{"name": "orders"}]},
    ]
    tasks = [{"subtopologyId": "0", "partitions": [3]}, {"subtopologyId": "1", "partitions": [0, 3]}]
    group = streams(topology, tasks, ("b", 3), ("c", 0), ("c", 1))
    assert group.members[0].partitions == (("b", 3), ("c", 0), ("orders", 3))
