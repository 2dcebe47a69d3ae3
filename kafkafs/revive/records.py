"""The records of the metadata log with which the revived cluster begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from storage.errors import ConfigError
from storage.internal import TOPIC_RESOURCE, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from kafkafs.revive.known import Cluster
    from kafkafs.revive.plan import PartitionPlan, Plan

_TOPIC, _PARTITION, _CONFIG, _USER, _FEATURE, _QUOTA, _PRODUCER_IDS, _ACL = 2, 3, 4, 11, 12, 14, 15, 18
_DIRECTORIES_FROM: Final = 17
"""The level of 3.7-IV2, from which partitions name their log directories."""
_DEFAULT_LEVEL: Final = 21
"""The level of 3.9-IV0, which brokers of 3.9 and of every 4 start with."""
_LEAST_LEVEL: Final = 7
"""The level of 3.3-IV3, the least that brokers of Kafka 4 start with."""
_PRODUCER_BLOCK: Final = 1000
"""How many producer ids a controller hands a broker at a time."""
_NO_BROKER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Target:
    """The node that is made: its id, the level of its cluster's `metadata.version`, and each log directory's id."""

    node_id: int
    level: int
    directory_ids: tuple[UUID, ...]

    @property
    def version(self) -> str:
        """Kafka's name for the level, such as 3.9-IV0."""
        return metadata.VERSION_NAMES.get(self.level, str(self.level))


def chosen_level(version: str | None, cluster: Cluster, *, log_dirs: int) -> int:
    """Return the level of a version's name, or the one to take without a name: the old cluster's if that is newer.

    A release's own name, such as 3.9, is its last level. Raises `ConfigError`, also for one that does not let a broker
    have so many log directories.
    """
    level = _level(version, cluster)
    if log_dirs > 1 and not names_directories(level):
        least = metadata.VERSION_NAMES[_DIRECTORIES_FROM]
        raise ConfigError(f"several log directories need a metadata version of {least} or later")
    return level


def _level(version: str | None, cluster: Cluster) -> int:
    if version is None:
        return max(_DEFAULT_LEVEL, cluster.image.features.get(metadata.VERSION_FEATURE, 0))
    levels = [
        level for level, name in metadata.VERSION_NAMES.items() if version in (name, name.partition("-")[0], str(level))
    ]
    if not levels or max(levels) < _LEAST_LEVEL:
        least, newest = metadata.VERSION_NAMES[_LEAST_LEVEL], metadata.VERSION_NAMES[max(metadata.VERSION_NAMES)]
        raise ConfigError(f"{version!r} is no metadata version that is known here: they go from {least} to {newest}")
    return max(levels)


def names_directories(level: int) -> bool:
    """True if partitions name their log directories, so that there may be several."""
    return level >= _DIRECTORIES_FROM


def carried_features(plan: Plan, level: int) -> tuple[dict[str, int], list[str]]:
    """Return the old cluster's features that the new one keeps, and the names of those that it begins without."""
    features = {name: each for name, each in plan.cluster.image.features.items() if name != metadata.VERSION_FEATURE}
    if level >= plan.cluster.image.features.get(metadata.VERSION_FEATURE, 0):
        return features, []
    return {}, sorted(features)


def bootstrap_records(
    plan: Plan,
    target: Target,
    topic_ids: Mapping[str, UUID],
    places: Mapping[tuple[str, int], int],
    next_producer_id: int,
) -> Iterator[bytes]:
    """Yield the records; `places` are the numbers of the log directories that the partitions are in."""
    image = plan.cluster.image
    yield metadata.encode(_FEATURE, 0, {"name": metadata.VERSION_FEATURE, "featureLevel": target.level})
    for name, level in sorted(carried_features(plan, target.level)[0].items()):
        yield metadata.encode(_FEATURE, 0, {"name": name, "featureLevel": level})
    for topic in plan.topics:
        topic_id = topic_ids[topic.name]
        yield metadata.encode(_TOPIC, 0, {"name": topic.name, "topicId": topic_id})
        for partition in topic.partitions:
            yield _partition(partition, topic_id, target, places[partition.partition])
        for key, value in sorted(topic.held.settings.items()):
            fields = {"resourceType": TOPIC_RESOURCE, "resourceName": topic.name, "name": key, "value": value}
            yield metadata.encode(_CONFIG, 0, fields)
    for entity, quotas in image.quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, number in quotas.items():
            fields = {"entity": parts, "key": key, "value": number, "remove": False}
            yield metadata.encode(_QUOTA, 0, fields)
    for acl in image.acls.values():
        yield metadata.encode(_ACL, 0, acl)
    for user in image.secrets.values():
        yield metadata.encode(_USER, 0, user)
    if next_producer_id:
        fields = {"brokerId": target.node_id, "brokerEpoch": _NO_BROKER_EPOCH, "nextProducerId": next_producer_id}
        yield metadata.encode(_PRODUCER_IDS, 0, fields)


def producer_block(plan: Plan, largest: int) -> int:
    """Return the first producer id to hand out, so that no new producer gets the id of an old one."""
    largest = max([largest, *(each.replica.largest_producer_id for part in plan.partitions for each in part.sources)])
    return max(plan.cluster.image.next_producer_id, -(-(largest + 1) // _PRODUCER_BLOCK) * _PRODUCER_BLOCK)


def _partition(plan: PartitionPlan, topic_id: UUID, target: Target, place: int) -> bytes:
    fields: dict[str, object] = {
        "partitionId": plan.partition[1],
        "topicId": topic_id,
        "replicas": [target.node_id],
        "isr": [target.node_id],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": target.node_id,
        "leaderEpoch": plan.leader_epoch,
        "partitionEpoch": 0,
    }
    if not names_directories(target.level):
        return metadata.encode(_PARTITION, 0, fields)
    return metadata.encode(_PARTITION, 1, {**fields, "directories": [target.directory_ids[place]]})
