"""Partitions without a directory: what checkpoints and the metadata log tell of them, and what they do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from memory_logs import StandingClock
from metadata_logs import TOPIC_ID, BrokerDir, partition_record, topic_record
from replica_directories import ReplicaDirectory, Written

from kafkafs.revive import Choice, make_plan, plan_lines, plan_object, read_cluster, read_disks
from storage.errors import UnknownPartitionError
from storage.ids import format_id
from storage.log_dir import DirectoryState, OffsetCheckpoint, write_offsets
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkafs.revive import Plan
    from storage.log_dir import Partition

OTHER_ID = UUID("99999999-2222-4333-8444-555555555555")
UNIQUE = "0123456789abcdef0123456789abcdef"


class Disks:
    """The log directories of dead brokers in memory."""

    def __init__(self, *metadata: bytes) -> None:
        self.files = MemoryFiles()
        self.broker = BrokerDir(self.files)
        self.paths = ["/broker"]
        if metadata:
            self.broker.tell(*metadata)

    def another(self) -> str:
        """Make one more, of a broker without a metadata log."""
        self.paths.append("/another")
        self.files.make_directory("/another")
        return "/another"

    def has(self, path: str, records: int = 5, topic_id: UUID | None = None) -> None:
        """Make a replica with a record in each batch."""
        replica = ReplicaDirectory(self.files, path, [Written(0)] * records)
        if topic_id is not None:
            replica.directory.replace("partition.metadata", f"version: 0\ntopic_id: {format_id(topic_id)}\n".encode())

    def say(
        self,
        offsets: Mapping[Partition, int],
        checkpoint: OffsetCheckpoint = OffsetCheckpoint.HIGH_WATERMARK,
        path: str = "/broker",
    ) -> None:
        write_offsets(self.files.directory(path), checkpoint, offsets)

    def plan(self, choice: Choice | None = None) -> Plan:
        disks = read_disks(self.files, [Path(path) for path in self.paths])
        return make_plan(disks, read_cluster(disks, StandingClock())[0], choice or Choice(), lambda *_: None)


def test_a_partition_whose_directory_is_gone_is_kept_and_its_offsets_are_missing() -> None:
    disks = Disks()
    disks.has("/broker/t-0")
    disks.say({("t", 0): 5, ("t", 1): 1000})
    disks.say({("t", 1): 900}, OffsetCheckpoint.LOG_START)
    plan = disks.plan()
    lines = list(plan_lines(plan, 21))
    at = lines.index("  t-1: empty: no directory is taken in")
    assert lines[at + 1] == "    missing  offsets 900 to 999, once replicated"
    assert "  note     no disk has the partitions 1 of 2: they begin empty" in lines
    assert lines[-1].startswith("1 topic, 2 partitions, ")
    assert lines[-1].endswith("MB, 100 offsets below the high watermark on no disk")
    assert plan.has_losses
    _, lost = plan_object(plan, 21)["topics"][0]["partitions"]
    assert (lost["missing"], lost["highWatermark"], lost["from"]) == (100, 1000, None)


def test_one_offset_is_not_called_offsets() -> None:
    disks = Disks()
    disks.has("/broker/t-0")
    disks.say({("t", 0): 6})
    assert list(plan_lines(disks.plan(), 21))[-1].endswith(", 1 offset below the high watermark on no disk")


def test_a_recovery_point_tells_how_many_partitions_there_are() -> None:
    disks = Disks()
    disks.has("/broker/t-0")
    disks.say({("t", 0): 5, ("t", 2): 7}, OffsetCheckpoint.RECOVERY_POINT)
    plan = disks.plan()
    assert [each.partition for each in plan.partitions] == [("t", 0), ("t", 1), ("t", 2)]
    assert not plan.has_losses, "nothing says that it was replicated"


def test_the_offsets_of_a_partition_that_the_metadata_log_has_are_missing() -> None:
    disks = Disks(topic_record("t"), partition_record(0), partition_record(1))
    disks.has("/broker/t-0", topic_id=TOPIC_ID)
    disks.say({("t", 0): 5, ("t", 1): 8})
    assert [each.missing for each in disks.plan().partitions] == [0, 8]


def test_the_checkpoint_of_the_disk_that_lost_the_directory_counts_for_the_replica_elsewhere() -> None:
    disks = Disks()
    disks.has(f"{disks.another()}/t-0", records=5)
    disks.has("/broker/other-0")
    disks.say({("t", 0): 9, ("other", 0): 5})
    disks.say({("t", 0): 4}, path="/another")
    (found,) = [each for each in disks.plan().partitions if each.partition == ("t", 0)]
    assert (found.missing_offsets, found.missing) == ((5, 9), 4)


def test_lines_that_a_deleted_topic_left_make_no_topic() -> None:
    for metadata in ((), (topic_record("t"),)):
        disks = Disks(*metadata)
        disks.has("/broker/t-0")
        disks.say({("t", 0): 5, ("deleted", 0): 1000})
        plan = disks.plan()
        assert [topic.name for topic in plan.topics] == ["t"]
        assert not plan.has_losses
        assert (
            "only checkpoints have the topics deleted: they were deleted, or all of their directories are gone; "
            "nothing is made of them"
        ) in plan.notes
        assert not any("deleted" in note for note in disks.plan(Choice(topics=("t",))).notes)
        with pytest.raises(UnknownPartitionError, match="there is no topic 'deleted'"):
            disks.plan(Choice(topics=("deleted",)))


def test_a_topic_that_the_metadata_log_has_is_kept_without_a_directory() -> None:
    disks = Disks(topic_record("gone"), partition_record(0), partition_record(1))
    disks.has("/broker/t-0")
    disks.say({("t", 0): 5, ("gone", 0): 10, ("gone", 1): 20})
    plan = disks.plan()
    gone = next(topic for topic in plan.topics if topic.name == "gone")
    assert (gone.topic_id, [each.missing for each in gone.partitions]) == (TOPIC_ID, [10, 20])
    assert not any("no partition is here" in line for line in plan_lines(plan, 21))


def test_a_topic_that_a_broker_was_deleting_is_not_kept() -> None:
    disks = Disks(topic_record("t"), partition_record(0))
    disks.has("/broker/other-0")
    disks.has(f"/broker/t-0.{UNIQUE}-delete", topic_id=TOPIC_ID)
    disks.say({("t", 0): 5, ("other", 0): 5})
    plan = disks.plan()
    assert [topic.name for topic in plan.topics] == ["other"]
    assert any(line.endswith("--undelete or --include takes in: t") for line in plan_lines(plan, 21))


def test_lines_of_a_topic_that_had_the_name_before_do_not_count() -> None:
    disks = Disks(topic_record("t"), partition_record(0))
    disks.has("/broker/t-0", topic_id=TOPIC_ID)
    disks.has(f"/broker/t-1.{UNIQUE}-delete", topic_id=OTHER_ID)
    disks.say({("t", 0): 5, ("t", 1): 500})
    disks.has(f"{disks.another()}/t-0", topic_id=OTHER_ID)
    disks.say({("t", 0): 700, ("t", 2): 700}, path="/another")
    plan = disks.plan()
    assert [(each.partition, each.missing) for each in plan.partitions] == [(("t", 0), 0)]


def test_strays_and_future_copies_are_named_with_the_option_that_takes_them_in() -> None:
    disks = Disks()
    disks.has("/broker/t-0")
    for state in ("stray", "future"):
        disks.has(f"/broker/t-1.{UNIQUE}-{state}")
    notes = {
        state: f"left out, unless --include {state} takes them in: /broker/t-1.{UNIQUE}-{state}"
        for state in ("stray", "future")
    }
    assert list(disks.plan().notes) == list(notes.values())
    included = Choice(states=frozenset({DirectoryState.CURRENT, DirectoryState.STRAY}))
    assert list(disks.plan(included).notes) == [notes["future"]]


def test_a_disk_with_nothing_but_strays_says_so() -> None:
    disks = Disks()
    for number in range(7):
        disks.has(f"/broker/t-{number}.{UNIQUE}-stray")
    with pytest.raises(UnknownPartitionError, match=r"--include stray takes them in: /broker/t-0\..* and 2 more"):
        disks.plan()
