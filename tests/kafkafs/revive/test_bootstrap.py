"""The records with which a revived cluster begins: all that the old metadata log had, as far as it still counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from memory_logs import StandingClock
from metadata_logs import TOPIC_ID, BrokerDir, partition_record, topic_record, topic_setting
from replica_directories import ReplicaDirectory, Written

from kafkafs.revive import Choice, Making, make_plan, read_cluster, read_disks, revive
from kafkafs.revive.records import chosen_level
from storage.cluster import MetadataLog
from storage.ids import format_id
from storage.internal import ClusterImage, Message, metadata
from storage.record import read_batches
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

FEATURE, QUOTA, ACL, USER, PRODUCER_IDS = 12, 14, 18, 11, 15
ACL_FIELDS: Final[dict[str, Any]] = {
    "id": UUID(int=1 << 80),
    "resourceType": 2,
    "resourceName": "t",
    "patternType": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permissionType": 3,
}
USER_FIELDS: Final[dict[str, Any]] = {
    "name": "alice",
    "mechanism": 1,
    "salt": b"salt",
    "storedKey": b"stored",
    "serverKey": b"server",
    "iterations": 4096,
}
QUOTA_FIELDS: Final[dict[str, Any]] = {
    "entity": [{"entityType": "user", "entityName": None}],
    "key": "producer_byte_rate",
    "value": 1024.0,
    "remove": False,
}


def old_cluster(level: int) -> MemoryFiles:
    """Make the log directory of a broker whose cluster had something of everything."""
    files = MemoryFiles()
    broker = BrokerDir(files)
    broker.tell(
        metadata.encode(FEATURE, 0, {"name": "metadata.version", "featureLevel": level}),
        metadata.encode(FEATURE, 0, {"name": "group.version", "featureLevel": 1}),
        topic_record("t"),
        partition_record(0, replicas=(1, 2, 3)),
        partition_record(1, replicas=(2, 3, 1)),
        topic_setting("t", "cleanup.policy", "compact"),
        topic_setting("t", "min.insync.replicas", "2"),
        metadata.encode(QUOTA, 0, QUOTA_FIELDS),
        metadata.encode(ACL, 0, ACL_FIELDS),
        metadata.encode(USER, 0, USER_FIELDS),
        metadata.encode(PRODUCER_IDS, 0, {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 7000}),
    )
    replica = ReplicaDirectory(files, "/broker/t-0", [Written(4)] * 3)
    replica.directory.replace("partition.metadata", f"version: 0\ntopic_id: {format_id(TOPIC_ID)}".encode())
    return files


def revived_image(files: MemoryFiles, version: str | None = None) -> ClusterImage:
    """Revive the cluster; return what the new one begins with."""
    clock = StandingClock()
    disks = read_disks(files, [Path("/broker")])
    cluster, flaws = read_cluster(disks, clock)
    assert flaws == []
    plan = make_plan(disks, cluster, Choice(), lambda *_: None)
    level = chosen_level(version, cluster, log_dirs=1)
    making = Making(log_dirs=(Path("/new"),), node_id=1, level=level, links=False, server_properties={})
    revive(plan, making, files, clock, advance=lambda *_: None)
    image = ClusterImage(keeps_secrets=True)
    for message in _messages(files.read("/new/bootstrap.checkpoint")):
        image.apply(message.name, message.fields, None)
    return image


def _messages(data: bytes) -> Iterator[Message]:
    for batch in read_batches(data):
        for record in batch.records():
            if not batch.is_control:
                found = metadata.decode(record.value)
                assert isinstance(found, Message)
                yield found


def test_everything_that_the_old_cluster_had_is_there() -> None:
    image = revived_image(old_cluster(25))
    assert image.features == {"metadata.version": 25, "group.version": 1}
    topic = image.topic("t")
    assert topic is not None
    assert topic.topic_id == TOPIC_ID
    assert {number: each["replicas"] for number, each in topic.partitions.items()} == {0: [1], 1: [1]}
    assert [each["leaderEpoch"] for each in topic.partitions.values()] == [4, 0]
    settings = {key: each.value for key, each in image.settings_of(2, "t").items()}
    assert settings == {"cleanup.policy": "compact", "retention.bytes": "-1", "retention.ms": "-1"}
    assert image.quotas == {(("user", None),): {"producer_byte_rate": 1024.0}}
    assert list(image.acls.values()) == [ACL_FIELDS]
    assert image.secrets == {("alice", 1): USER_FIELDS}
    assert image.next_producer_id == 7000


def test_an_older_target_gets_no_features_that_it_does_not_have() -> None:
    assert revived_image(old_cluster(25), "3.9").features == {"metadata.version": 21}
    assert revived_image(old_cluster(16)).features == {"metadata.version": 21, "group.version": 1}


def test_secrets_are_kept_for_who_revives_alone() -> None:
    files = old_cluster(25)
    cluster, _ = read_cluster(read_disks(files, [Path("/broker")]), StandingClock())
    assert cluster.image.secrets
    assert "stored" not in repr(cluster.image)
    assert MetadataLog.__init__.__kwdefaults__ == {"keeps_secrets": False}
