"""The plan for people: the last offset that a line names is one of the range."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_logs import StandingClock
from metadata_logs import BrokerDir, topic_record
from replica_directories import ReplicaDirectory, Written

from kafkafs.revive import Choice, make_plan, plan_lines, read_cluster, read_disks
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
