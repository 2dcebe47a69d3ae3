"""Records that no broker writes: images stay consistent, and each record costs what it says itself."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from storage.internal.cluster_image import TOPIC_RESOURCE, ClusterImage
from storage.internal.groups_image import GroupsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALPHA, BETA = UUID(int=1), UUID(int=2)
NAMES = ("alpha", "beta", "gamma", "delta")
IDS = tuple(UUID(int=number) for number in range(1, 5))
COMMITTED = {"offset": 1, "metadata": "", "commitTimestamp": 1}


def topic(name: str, topic_id: UUID) -> tuple[str, dict[str, Any]]:
    return "TopicRecord", {"name": name, "topicId": topic_id}


def removal(topic_id: UUID) -> tuple[str, dict[str, Any]]:
    return "RemoveTopicRecord", {"topicId": topic_id}


def partition(number: int, topic_id: UUID, *eligible: int) -> tuple[str, dict[str, Any]]:
    fields = {"partitionId": number, "topicId": topic_id, "partitionEpoch": 0, "leaderEpoch": 0, "replicas": [1]}
    return "PartitionRecord", {**fields, "eligibleLeaderReplicas": list(eligible), "lastKnownElr": None}


def change(number: int, topic_id: UUID, *eligible: int) -> tuple[str, dict[str, Any]]:
    fields = {"partitionId": number, "topicId": topic_id, "leader": -2, "leaderRecoveryState": -1}
    return "PartitionChangeRecord", {**fields, "eligibleLeaderReplicas": list(eligible) or None}


def clearing(name: str = "") -> tuple[str, dict[str, Any]]:
    return "ClearElrRecord", {"topicName": name}


def image_of(*records: tuple[str, dict[str, Any]]) -> ClusterImage:
    image = ClusterImage()
    for offset, (name, fields) in enumerate(records):
        image.apply(name, fields, offset)
    return image


def test_an_id_has_the_name_that_came_last() -> None:
    image = image_of(topic("alpha", ALPHA), topic("beta", ALPHA))
    assert image.topic_ids == {"beta": ALPHA}
    assert image.topic("alpha") is None
    gone = image_of(topic("alpha", ALPHA), topic("beta", ALPHA), removal(ALPHA))
    assert (gone.topics, gone.topic_ids, gone.topic("alpha")) == ({}, {}, None)


def test_a_name_has_the_id_that_came_last() -> None:
    image = image_of(topic("alpha", ALPHA), partition(0, ALPHA, 1), topic("alpha", BETA), clearing(), removal(ALPHA))
    assert image.topic_ids == {"alpha": BETA}
    assert image.topics.keys() == {BETA}


def record_of(chance: random.Random) -> tuple[str, dict[str, Any]]:
    name, topic_id, number = chance.choice(NAMES), chance.choice(IDS), chance.randrange(3)
    eligible = (1,) * chance.randrange(2)
    setting = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": "a", "value": chance.choice(("1", None))}
    made = (topic(name, topic_id), removal(topic_id), partition(number, topic_id, *eligible))
    return chance.choice(
        (*made, change(number, topic_id, *eligible), clearing(), clearing(name), ("ConfigRecord", setting))
    )


@pytest.mark.parametrize("seed", range(50))
def test_names_and_ids_of_topics_agree_after_any_records(seed: int) -> None:
    chance = random.Random(seed)
    image = ClusterImage()
    for offset in range(200):
        name, fields = record_of(chance)
        image.apply(name, fields, offset)
        assert image.topic_ids == {each.name: topic_id for topic_id, each in image.topics.items()}
        assert all(each.topic_id == topic_id for topic_id, each in image.topics.items())
        if name == "ClearElrRecord":
            cleared = [image.topic(fields["topicName"])] if fields["topicName"] else image.topics.values()
            found = [fields for each in cleared if each is not None for fields in each.partitions.values()]
            assert not any(fields.get("eligibleLeaderReplicas") or fields.get("lastKnownElr") for fields in found)


def test_what_a_clear_leaves_is_cleared_when_it_comes_again() -> None:
    image = image_of(topic("alpha", ALPHA), partition(0, ALPHA, 1), clearing(), change(0, ALPHA, 2))
    assert image.topics[ALPHA].partitions[0]["eligibleLeaderReplicas"] == [2]
    image.apply(*clearing(), 9)
    assert image.topics[ALPHA].partitions[0]["eligibleLeaderReplicas"] == []


def clears(size: int) -> Iterator[Callable[[], object]]:
    """As many partitions as records that clear all of them."""
    image = image_of(topic("alpha", ALPHA), *(partition(number, ALPHA, 1) for number in range(size)))
    yield lambda: [image.apply(*clearing(), None) for _ in range(size)]


def tombstones(size: int) -> Iterator[Callable[[], object]]:
    """As many producers with open transactions as tombstones."""
    image = GroupsImage()
    for number in range(size):
        image.apply("OffsetCommit", {"group": "g", "topic": "t", "partition": 0}, COMMITTED, number, number)
    for number in range(size):
        image.apply("OffsetCommit", {"group": "g", "topic": "u", "partition": number}, COMMITTED, number, 0)
    keys = [{"group": "g", "topic": "u", "partition": number} for number in range(size)]
    yield lambda: [image.apply("OffsetCommit", key, None, 0) for key in keys]


@pytest.mark.parametrize("work", [clears, tombstones])
def test_four_times_the_records_are_four_times_the_steps(work: Callable[[int], Iterator[Callable[[], object]]]) -> None:
    few, many = (steps(next(work(size))) for size in (100, 400))
    assert many < 6 * few


def steps(work: Callable[[], object]) -> int:
    """Count the lines of Python that the work takes."""
    count = 0

    def tracer(_frame: object, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_tombstone_takes_what_any_producer_has_pending() -> None:
    image = GroupsImage()
    key = {"group": "g", "topic": "t", "partition": 0}
    for producer_id in (1, 2):
        image.apply("OffsetCommit", key, COMMITTED, producer_id, producer_id)
    image.apply("OffsetCommit", key | {"partition": 1}, COMMITTED, 3, 1)
    image.apply("OffsetCommit", key, None, 4)
    for producer_id in (1, 2):
        image.end_transaction(producer_id, 5, is_commit=True)
    assert list(image.groups["g"].offsets) == [("t", 1)]
    assert image.groups["g"].pending == {}
