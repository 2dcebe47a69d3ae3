"""The plan for people: the last offset that a line names is one of the range."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_logs import StandingClock
from metadata_logs import BrokerDir, topic_record
from replica_directories import TIME_MS, ReplicaDirectory, Written

from kafkafs.revive import Choice, Plan, make_plan, plan_lines, plan_object, read_cluster, read_disks
from storage.log_dir import OffsetCheckpoint, write_offsets
from storage.testing.memory_files import MemoryFiles


@pytest.mark.parametrize(
    ("records", "high_watermark", "has", "missing"),
    [
        (5, 8, "offsets 0 to 4", ["offsets 5 to 7"]),
        (1, 2, "offset 0", ["offset 1"]),
        (0, 3, "no records (the next offset is 0)", ["offsets 0 to 2"]),
        (0, 0, "no records (the next offset is 0)", []),
    ],
)
def test_the_offsets_of_a_partition(records: int, high_watermark: int, has: str, missing: list[str]) -> None:
    files = MemoryFiles()
    BrokerDir(files).tell(topic_record("t"))
    ReplicaDirectory(files, "/broker/t-0", [Written(0)] * records)
    write_offsets(files.directory("/broker"), OffsetCheckpoint.HIGH_WATERMARK, {("t", 0): high_watermark})
    disks = read_disks(files, [Path("/broker")])
    plan = make_plan(disks, read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)
    lines = list(plan_lines(plan, 21))
    at = lines.index(f"  t-0: {has} from /broker/t-0")
    assert [line for line in lines[at + 1 :] if "missing" in line] == [
        f"    missing  {each}, once replicated" for each in missing
    ]


def plan_of(*replicas: list[Written], damaged: tuple[int, ...] = ()) -> Plan:
    """Plan with a broker for each replica of a partition, whose first one has damaged batches."""
    files = MemoryFiles()
    paths = [Path(f"/broker{number}") for number in range(1, len(replicas) + 1)]
    for path, batches in zip(paths, replicas, strict=True):
        files.make_directory(path)
        replica = ReplicaDirectory(files, f"{path}/t-0", batches)
        for number in damaged if path == paths[0] else ():
            replica.damage(number)
    disks = read_disks(files, paths)
    return make_plan(disks, read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)


def lines_of(plan: Plan) -> list[str]:
    return [line for line in plan_lines(plan, 21) if line.startswith("    ")]


SHARED = [Written(0)] * 5
OURS, THEIRS = (Written(0, (TIME_MS,) * 3, history) for history in (b"x", b"y"))


def test_a_history_of_its_own_within_an_epoch_is_named_and_counted() -> None:
    plan = plan_of([*SHARED, OURS, OURS], [*SHARED, THEIRS], [*SHARED, Written(0, history=b"z")])
    assert lines_of(plan) == [
        "    not from /broker2/t-0: it has a history of its own from offset 5 on",
        "    not from /broker3/t-0: it has a history of its own from offset 5 on",
        "    lost     offsets 5 to 7 as /broker2/t-0 has them",
        "    lost     offset 5 as /broker3/t-0 has it",
    ]
    assert list(plan_lines(plan, 21))[-1].endswith(" MB, 3 offsets lost that a replica has with a history of its own")
    (partition,) = plan_object(plan, 21)["topics"][0]["partitions"]
    assert partition["lost"] == [[5, 8, "/broker2/t-0"], [5, 6, "/broker3/t-0"]]
    assert partition["others"][0]["reason"] == "it has a history of its own from offset 5 on"


def test_damage_is_not_said_to_be_on_a_disk_with_another_history() -> None:
    plan = plan_of([*SHARED, OURS, OURS], [*SHARED, THEIRS], damaged=(5,))
    first, damaged, last = lines_of(plan)
    assert first == "    not from /broker2/t-0: it has a history of its own from offset 5 on"
    assert damaged.startswith("    damaged  offsets 5 to 7, on every disk with this history: the batch's bytes")
    assert last == "    lost     offsets 5 to 7 as /broker2/t-0 has them"


@pytest.mark.parametrize(
    ("others", "reason"),
    [(SHARED, "it is the same"), (SHARED[:3], "it ends at offset 3")],
)
def test_why_a_replica_with_the_same_history_is_not_taken(others: list[Written], reason: str) -> None:
    assert lines_of(plan_of(SHARED, others)) == [f"    not from /broker2/t-0: {reason}"]


def test_of_two_damaged_replicas_none_is_called_the_same() -> None:
    files = MemoryFiles()
    for broker, number in (("/broker1", 1), ("/broker2", 3)):
        files.make_directory(broker)
        ReplicaDirectory(files, f"{broker}/t-0", SHARED).damage(number)
    disks = read_disks(files, [Path("/broker1"), Path("/broker2")])
    plan = make_plan(disks, read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)
    first, second = lines_of(plan)
    assert first.startswith("    not from /broker2/t-0: it is damaged: ")
    assert second == "    filled   offset 1 from /broker2/t-0"


def test_records_of_a_history_that_was_not_chosen_are_a_loss() -> None:
    files = MemoryFiles()
    for path, epochs in (("/one", (0, 0, 1)), ("/other", (0, 0, 0, 0))):
        files.make_directory(path)
        ReplicaDirectory(files, f"{path}/t-0", [Written(epoch) for epoch in epochs])
    disks = read_disks(files, [Path("/one"), Path("/other")])
    plan = make_plan(disks, read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)
    assert "    lost     offsets 2 to 3 as /other/t-0 has them" in plan_lines(plan, 21)
    assert plan.has_losses
    alone = make_plan(disks[1:], read_cluster(disks, StandingClock())[0], Choice(), lambda *_: None)
    assert not alone.has_losses
