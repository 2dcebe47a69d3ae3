"""The image of a sequence of metadata records equals a broker's after them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from storage.internal.cluster_image import (
    BROKER_RESOURCE,
    NO_LEADER_CHANGE,
    TOPIC_RESOURCE,
    ClusterImage,
    RecordedSetting,
    Resource,
)

ORDERS, OTHER = UUID(int=1 << 100), UUID(int=2 << 100)
PARTITION = {
    "partitionId": 0,
    "topicId": ORDERS,
    "replicas": [1, 2],
    "isr": [1, 2],
    "removingReplicas": [],
    "addingReplicas": [],
    "leader": 1,
    "leaderRecoveryState": 0,
    "leaderEpoch": 3,
    "partitionEpoch": 7,
}
NO_CHANGE = {
    "partitionId": 0,
    "topicId": ORDERS,
    "isr": None,
    "leader": NO_LEADER_CHANGE,
    "replicas": None,
    "removingReplicas": None,
    "addingReplicas": None,
    "leaderRecoveryState": -1,
}


def image_of(*records: tuple[str, dict[str, Any]]) -> ClusterImage:
    image = ClusterImage()
    for offset, (name, fields) in enumerate(records):
        image.apply(name, fields, offset)
    return image


def topic(name: str, topic_id: UUID) -> tuple[str, dict[str, Any]]:
    return "TopicRecord", {"name": name, "topicId": topic_id}


def setting(kind: int, name: str, key: str, value: str | None) -> tuple[str, dict[str, Any]]:
    return "ConfigRecord", {"resourceType": kind, "resourceName": name, "name": key, "value": value}


def test_a_topic_goes_with_its_partitions_and_settings() -> None:
    made = [topic("orders", ORDERS), ("PartitionRecord", PARTITION), setting(TOPIC_RESOURCE, "orders", "a", "1")]
    image = image_of(*made)
    found = image.topic("orders")
    assert found is not None
    assert (found.offset, found.partitions[0]["isr"], image.end_offset) == (0, [1, 2], 3)
    assert image.settings_of(TOPIC_RESOURCE, "orders") == {"a": RecordedSetting("1", 2)}
    gone = image_of(*made, ("RemoveTopicRecord", {"topicId": ORDERS}))
    assert (gone.topic("orders"), gone.topics, gone.settings) == (None, {}, {})


def test_removing_a_topic_leaves_its_successor_of_the_same_name() -> None:
    image = image_of(topic("orders", ORDERS), topic("orders", OTHER), ("RemoveTopicRecord", {"topicId": ORDERS}))
    found = image.topic("orders")
    assert found is not None
    assert found.topic_id == OTHER


def test_a_change_of_a_partition_changes_what_it_names() -> None:
    begin = [topic("orders", ORDERS), ("PartitionRecord", PARTITION)]
    kept = image_of(*begin, ("PartitionChangeRecord", {**NO_CHANGE, "isr": [2]})).topics[ORDERS].partitions[0]
    assert kept == {**PARTITION, "isr": [2], "partitionEpoch": 8}
    changes = {**NO_CHANGE, "leader": 2, "leaderRecoveryState": 1, "replicas": [2, 3], "lastKnownElr": [1]}
    changed = image_of(*begin, ("PartitionChangeRecord", changes)).topics[ORDERS].partitions[0]
    assert (changed["leader"], changed["leaderEpoch"], changed["leaderRecoveryState"]) == (2, 4, 1)
    assert (changed["replicas"], changed["lastKnownElr"], changed["isr"]) == ([2, 3], [1], [1, 2])


@pytest.mark.parametrize("name", ["orders", ""])
def test_eligible_replicas_are_cleared_of_one_topic_or_of_all(name: str) -> None:
    partition = {**PARTITION, "eligibleLeaderReplicas": [1], "lastKnownElr": [2]}
    image = image_of(topic("orders", ORDERS), ("PartitionRecord", partition), ("ClearElrRecord", {"topicName": name}))
    found = image.topics[ORDERS].partitions[0]
    assert (found["eligibleLeaderReplicas"], found["lastKnownElr"]) == ([], [])


def test_settings_are_replaced_and_removed() -> None:
    resource = Resource(BROKER_RESOURCE, "")
    first = [setting(BROKER_RESOURCE, "", "log.retention.ms", "1"), setting(BROKER_RESOURCE, "", "b", "2")]
    image = image_of(*first, setting(BROKER_RESOURCE, "", "log.retention.ms", "9"))
    assert image.settings == {resource: {"log.retention.ms": RecordedSetting("9", 2), "b": RecordedSetting("2", 1)}}
    gone = image_of(*first, *(setting(BROKER_RESOURCE, "", each, None) for each in ("log.retention.ms", "b", "c")))
    assert gone.settings == {}


def test_what_a_transaction_holds_counts_when_it_ends() -> None:
    begin = ("BeginTransactionRecord", {"name": None})
    image = image_of(begin, topic("orders", ORDERS))
    assert (image.topic("orders"), image.end_offset) == (None, 2)
    image.apply("EndTransactionRecord", {}, 2)
    found = image.topic("orders")
    assert found is not None
    assert found.offset == 1
    image.apply(*topic("payments", OTHER), 3)
    assert image.topic("payments") is not None
    aborted = image_of(begin, topic("orders", ORDERS), ("AbortTransactionRecord", {"reason": None}))
    aborted.apply(*topic("payments", OTHER), 3)
    assert (aborted.topic("orders"), aborted.topic("payments") is None) == (None, False)


def test_a_broker_is_registered_fenced_changed_and_removed() -> None:
    registered = ("RegisterBrokerRecord", {"brokerId": 1, "fenced": True, "endPoints": []})
    assert not image_of(registered, ("UnfenceBrokerRecord", {"id": 1, "epoch": 0})).brokers[1]["fenced"]
    changes = {"brokerId": 1, "fenced": -1, "inControlledShutdown": 1, "logDirs": [ORDERS]}
    changed = image_of(registered, ("BrokerRegistrationChangeRecord", changes)).brokers[1]
    assert (changed["fenced"], changed["inControlledShutdown"], changed["logDirs"]) == (False, True, [ORDERS])
    old = image_of(registered, ("BrokerRegistrationChangeRecord", {"brokerId": 1, "fenced": 0}))  # of version 0
    assert old.brokers[1]["fenced"]
    assert image_of(registered, ("UnregisterBrokerRecord", {"brokerId": 1})).brokers == {}
    assert image_of(("FenceBrokerRecord", {"id": 9, "epoch": 0})).brokers == {}


def test_a_controller_is_registered_and_removed() -> None:
    """Kafka can remove one since 4.4."""
    registered = [("RegisterControllerRecord", {"controllerId": number, "endPoints": []}) for number in (1, 2)]
    image = image_of(*registered, ("UnregisterControllerRecord", {"controllerId": 2}))
    assert image.controllers.keys() == {1}
    assert image_of(("UnregisterControllerRecord", {"controllerId": 9})).controllers == {}
    assert not image.unknown


def test_quotas_are_of_what_they_name_in_any_order() -> None:
    parts = [{"entityType": "user", "entityName": None}, {"entityType": "client-id", "entityName": "c"}]
    quota = {"key": "rate", "value": 2.5, "remove": False}
    image = image_of(("ClientQuotaRecord", {**quota, "entity": parts}))
    assert image.quotas == {(("client-id", "c"), ("user", None)): {"rate": 2.5}}
    image.apply("ClientQuotaRecord", {**quota, "entity": parts[::-1], "remove": True}, 1)
    assert image.quotas == {}


def test_no_secret_is_kept_and_an_unknown_type_is_counted() -> None:
    user = {"name": "u", "mechanism": 1, "salt": b"s", "storedKey": b"k", "serverKey": b"k", "iterations": 4096}
    image = image_of(("UserScramCredentialRecord", user), ("type 99 version 0", {}), ("type 99 version 0", {}))
    assert image.users == {("u", 1): (4096, 0)}
    assert image.unknown == {"type 99 version 0": 2}
