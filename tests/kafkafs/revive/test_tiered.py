"""A tiered topic: its settings go on as far as they mean something, and what only remote storage has is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory_logs import StandingClock
from metadata_logs import BrokerDir, topic_record, topic_setting
from replica_directories import ReplicaDirectory, Written

from kafkafs.revive import (
    Choice,
    command_lines,
    make_plan,
    plan_lines,
    plan_object,
    read_cluster,
    read_disks,
    release_lines,
)
from storage.log_dir import OffsetCheckpoint, write_offsets
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkafs.revive import Plan

SETTINGS = {
    "local.retention.bytes": "1000000",
    "local.retention.ms": "3600000",
    "remote.log.copy.disable": "false",
    "remote.storage.enable": "true",
    "retention.ms": "86400000",
}


def planned(settings: Mapping[str, str]) -> Plan:
    """Plan to revive a topic with these settings whose first segments are gone, while a checkpoint says 1."""
    files = MemoryFiles()
    broker = BrokerDir(files)
    broker.tell(topic_record("t"), *(topic_setting("t", key, value) for key, value in settings.items()))
    replica = ReplicaDirectory(files, "/broker/t-0", [Written(3)] * 8)
    for number in (0, 2):
        replica.lose_segment(number)
    write_offsets(files.directory("/broker"), OffsetCheckpoint.LOG_START, {("t", 0): 1})
    disks = read_disks(files, [Path("/broker")])
    return make_plan(disks, read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)


def test_a_tiered_topic_keeps_its_settings_and_what_is_remote_is_named() -> None:
    plan = planned(SETTINGS)
    (topic,) = plan.topics
    kept = {key: value for key, value in SETTINGS.items() if key.startswith("remote")}
    assert topic.held.settings == {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1", **kept}
    assert sorted(topic.held.left_out) == ["local.retention.bytes", "local.retention.ms"]
    (partition,) = topic.partitions
    assert (partition.start_offset, partition.end_offset, partition.remote) == (4, 8, (1, 4))
    assert "without the old broker's remote.log settings in revived.properties" in topic.notes[0]
    said = list(plan_lines(plan, 21))
    assert "    remote   offsets 1 to 3, in remote storage only" in said
    (object_,) = plan_object(plan, 21)["topics"]
    assert object_["partitions"][0]["remote"] == (1, 4)
    (release,) = release_lines(plan)
    for setting in ("retention.ms=86400000", "local.retention.ms=3600000", "local.retention.bytes=1000000"):
        assert setting in release
    assert "--delete-config retention.bytes" in release


def test_a_checkpoint_that_retention_left_behind_is_no_remote_storage() -> None:
    for settings in ({"retention.ms": "1000"}, {**SETTINGS, "remote.storage.enable": "false"}):
        (partition,) = planned(settings).partitions
        assert (partition.start_offset, partition.remote) == (4, None)


def test_a_running_cluster_gets_no_tiered_topic() -> None:
    plan = planned(SETTINGS)
    script = "\n".join(command_lines(plan, [Path("/new")], {}))
    assert "# t had remote.storage.enable, which is left out: the cluster may not be tiered." in script
    assert "--config remote" not in script
