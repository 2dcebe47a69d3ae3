"""Every kind of finding says what a broker does about it at its start; in a log that depends on what it reads."""

from __future__ import annotations

import pytest
from replica_directories import ReplicaDirectory, Written

from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.testing.memory_files import MemoryFiles
from storage.verify.at_start import AT_START, StartAction, in_partition, of_store
from storage.verify.context import PartitionExpectation
from storage.verify.finding import Finding, FindingKind, damage
from storage.verify.partition import verify_partition

POINT = OffsetCheckpoint.RECOVERY_POINT.value


def test_the_table_has_every_kind() -> None:
    assert AT_START.keys() == set(FindingKind)
    for kind in FindingKind:
        finding = of_store(damage(kind, "00000000000000000000.log", "a reason", position=0, offset=0))
        assert finding.start_action in set(StartAction)
        assert finding.at_start
        assert of_store(finding) == finding
    snapshot = damage(FindingKind.CHECKSUM, "00000000000000000042-0000000001.checkpoint", "a reason", position=0)
    assert of_store(snapshot).start_action == StartAction.REFUSE


def told(finding: Finding) -> tuple[str | None, str | None]:
    return finding.start_action, finding.at_start


@pytest.mark.parametrize(
    ("point", "is_clean", "expected"),
    [
        (
            0,
            False,
            ("truncate", "a broker truncates this log at position {}, removes the segments after it, and loses"),
        ),
        (4, False, ("nothing", "a broker does not read this segment when it starts, and serves it as it is")),
        (
            3,
            False,
            ("truncate", "a broker truncates this log at position {}, removes the segments after it, and loses"),
        ),
        (0, True, ("nothing", "a broker does not read this segment when it starts, and serves it as it is")),
    ],
)
def test_only_what_may_not_be_on_disk_is_read(point: int, expected: tuple[str, str], *, is_clean: bool) -> None:
    """Segments begin at 0, 2 and 4; a broker reads from the one on that has the recovery point."""
    replica = ReplicaDirectory(MemoryFiles(), "/t-0", [Written(1)] * 6)
    replica.damage(3)
    context = PartitionExpectation(directory=replica.directory, is_clean=is_clean, reached={POINT: point})
    found = verify_partition(context, advance=lambda _: None).findings
    (finding,) = (each for each in in_partition(context, found) if each.kind is FindingKind.CHECKSUM)
    action, text = told(finding)
    assert action == expected[0]
    assert text is not None
    assert text.startswith(expected[1].format(finding.position))
    if action == StartAction.TRUNCATE:
        assert text.endswith("the offsets from 3 up to the log's end")


@pytest.mark.parametrize("is_cluster_metadata", [False, True])
def test_of_the_metadata_log_the_loss_of_topics_is_said(*, is_cluster_metadata: bool) -> None:
    replica = ReplicaDirectory(MemoryFiles(), "/t-0", [Written(1)] * 6)
    replica.damage(3)
    context = PartitionExpectation(directory=replica.directory, is_cluster_metadata=is_cluster_metadata)
    found = verify_partition(context, advance=lambda _: None).findings
    (finding,) = (each for each in in_partition(context, found) if each.kind is FindingKind.CHECKSUM)
    aside = "; then it renames the partitions of all topics made in the records that are lost to -stray"
    assert finding.at_start is not None
    assert finding.at_start.endswith(f"up to the log's end{aside if is_cluster_metadata else ''}")


def test_of_a_last_segment_that_is_not_read_the_torn_end_stays() -> None:
    replica = ReplicaDirectory(MemoryFiles(), "/t-0", [Written(1)] * 2)
    with replica.files.open_writing(f"/t-0/{replica.places[0][0]}") as file:
        file.write_at(file.size_bytes(), [b"torn"])
    for is_clean, expected in (
        (True, ("nothing", "a broker does not read this segment when it starts, and appends after these bytes")),
        (False, ("truncate", "a broker truncates this log at position {} and loses the offsets from 2 on, if any")),
    ):
        context = PartitionExpectation(directory=replica.directory, is_clean=is_clean)
        found = verify_partition(context, advance=lambda _: None).findings
        (finding,) = (each for each in in_partition(context, found) if each.kind is FindingKind.TORN_TAIL)
        assert told(finding) == (expected[0], expected[1].format(finding.position))
