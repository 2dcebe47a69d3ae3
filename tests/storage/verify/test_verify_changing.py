"""What a verification says of strays, copies and small files, and while a broker changes what it looks at."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from verified_stores import UNIQUE, store_of_two, the_finding, verified

from storage.files import Files
from storage.ids import parse_id
from storage.log.partition_metadata import write_topic_id
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return store_of_two(tmp_path)


def test_a_partition_on_its_way_to_another_directory_is_looked_through(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    (other,) = [path for path in paths if path is not place]
    future = other / f"orders-1.{UNIQUE}-future"
    shutil.copytree(place / "orders-1", future)
    verification, findings = verified(paths)
    assert (findings, verification.partitions) == ([], 5)
    assert verified(paths, topics=["orders"])[0].partitions == 4
    log = future / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-20])
    _, findings = verified(paths)
    found = {(finding.kind, finding.log_dir, finding.path, finding.topic, finding.partition) for finding in findings}
    assert (FindingKind.TORN_TAIL, str(other), f"{future.name}/{log.name}", "orders", 1) in found
    assert {finding.path.partition("/")[0] for finding in findings} == {future.name}
    shutil.rmtree(place / "orders-1")
    (place / "recovery-point-offset-checkpoint").unlink()
    (place / "replication-offset-checkpoint").unlink()
    assert {finding.log_dir for finding in verified(paths)[1]} == {str(other)}


def test_a_stray_is_looked_through(paths: list[Path]) -> None:
    """It may be of another topic of that name, and a broker that stops does not close it."""
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    stray = place / f"orders-1.{UNIQUE}-stray"
    shutil.copytree(place / "orders-1", stray)
    write_topic_id(Files().directory(stray), parse_id("AAAAAAAAAAAAAAAAAAAAAQ"))
    for suffix in ("index", "timeindex"):
        with (stray / f"{0:020d}.{suffix}").open("r+b") as index:
            index.truncate(1200)
    verification, findings = verified(paths)
    assert (findings, verification.partitions) == ([], 5)
    assert verified(paths, topics=["orders"])[0].partitions == 4
    log = stray / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    _, (finding,) = verified(paths)
    assert (finding.kind, finding.log_dir, finding.path) == (
        FindingKind.CHECKSUM,
        str(place),
        f"{stray.name}/{log.name}",
    )
    assert (finding.topic, finding.partition, finding.position) == ("orders", 1, 0)


def test_checkpoints_speak_of_a_stray_only_where_no_partition_of_its_name_is(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    stray = place / f"orders-1.{UNIQUE}-stray"
    shutil.copytree(place / "orders-1", stray)
    log = stray / f"{0:020d}.log"
    with log.open("r+b") as file:
        file.truncate(0)
    for index in stray.glob("*index"):
        index.write_bytes(b"")
    for snapshot in stray.glob("*.snapshot"):
        snapshot.unlink()
    assert verified(paths)[1] == []
    (place / "orders-1").rename(place / f"orders-1.{UNIQUE}-delete")
    (finding,) = verified(paths)[1]
    assert (finding.kind, finding.path) == (FindingKind.LOST_TAIL, f"{stray.name}/{log.name}")


def test_the_records_that_a_cluster_began_with(paths: list[Path], datasets: Callable[[str], Path]) -> None:
    bootstrap = paths[0] / "bootstrap.checkpoint"
    shutil.copy(datasets("kafka-3.9") / "kafka-3.9" / "d1" / "bootstrap.checkpoint", bootstrap)
    assert verified(paths)[1] == []
    data = bytearray(bootstrap.read_bytes())
    data[170] ^= 1
    bootstrap.write_bytes(data)
    _, (finding,) = verified(paths)
    assert (finding.severity, finding.kind) == (Severity.DAMAGE, FindingKind.CHECKSUM)
    assert (finding.log_dir, finding.path, finding.position) == (str(paths[0]), "bootstrap.checkpoint", 83)


def test_what_lies_beside_the_metadata_log_of_a_real_broker(tmp_path: Path, datasets: Callable[[str], Path]) -> None:
    store, name = tmp_path / "d1", "__cluster_metadata-0"
    store.mkdir()
    source = datasets("kafka-3.9") / "kafka-3.9" / "d1"
    shutil.copy(source / "meta.properties", store)
    shutil.copytree(source / name, store / name)
    assert [finding for finding in verified([store])[1] if finding.severity is Severity.DAMAGE] == []
    (snapshot,) = (store / name).glob("*.checkpoint")
    data = bytearray(snapshot.read_bytes())
    data[5000] ^= 1
    snapshot.write_bytes(data)
    (store / name / "quorum-state").write_text("{}")
    found = [finding for finding in verified([store])[1] if finding.severity is Severity.DAMAGE]
    assert [(finding.kind, finding.path, finding.position) for finding in found] == [
        (FindingKind.CHECKSUM, f"{name}/{snapshot.name}", 83),
        (FindingKind.QUORUM_STATE, f"{name}/quorum-state", None),
    ]


def test_a_log_that_is_truncated_after_the_checkpoints_were_read_has_lost_nothing(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    (place / ".kafka_cleanshutdown").unlink()
    points, watermarks = (place / f"{each}-offset-checkpoint" for each in ("recovery-point", "replication"))
    for checkpoint in (points, watermarks):
        checkpoint.write_text("0\n1\norders 1 4\n")
    os.utime(points, ns=(10**18, 10**18))
    os.utime(watermarks, ns=(10**18, 10**18))
    verification = Verification(Files(), paths)
    points.write_text("0\n1\norders 1 3\n")  # with the truncation; the high watermark follows seconds later
    (finding,) = verification.run(lambda: None)
    assert (finding.severity, finding.kind) == (Severity.NOTICE, FindingKind.LOST_TAIL)
    verification = Verification(Files(), paths)
    watermarks.write_text("0\n1\norders 1 3\n")
    assert list(verification.run(lambda: None)) == []
    # What is appended meanwhile raises them above what was seen of the log.
    verification = Verification(Files(), paths)
    points.write_text("0\n1\norders 1 9\n")
    assert list(verification.run(lambda: None)) == []
    (finding,) = verified(paths)[1]
    assert (finding.severity, finding.kind) == (Severity.DAMAGE, FindingKind.LOST_TAIL)


def test_a_log_directory_that_a_broker_opens_meanwhile_is_no_closed_one(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    verification = Verification(Files(), paths)
    for name in ("index", "timeindex"):
        with (place / "orders-1" / f"{0:020d}.{name}").open("r+b") as index:
            index.truncate(1200)
    assert {finding.kind for finding in verification.run(lambda: None)} == {FindingKind.UNTRIMMED_INDEX}
    verification = Verification(Files(), paths)
    (place / ".kafka_cleanshutdown").unlink()
    assert list(verification.run(lambda: None)) == []


def test_settings_of_another_cluster_are_a_notice_and_do_not_hold(paths: list[Path]) -> None:
    (paths[0] / "new-0").mkdir()
    (paths[0] / "new-0" / f"{0:020d}.index").write_bytes(b"12345678")
    settings = paths[0] / "kafkafs-topics.properties"
    with settings.open("a") as file:
        file.write("/void/new-0=AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert verified(paths)[1] == []
    for path in paths:
        (path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    finding, orphan = verified(paths)[1]
    assert (finding.kind, orphan.kind) == (FindingKind.SETTINGS, FindingKind.ORPHANED_INDEX)
    assert (finding.severity, finding.log_dir, finding.path) == (Severity.NOTICE, str(paths[0]), settings.name)
    assert finding.reason.startswith(f"no setting in {settings} holds: it is of the cluster ")


def test_a_high_watermark_from_before_a_truncation_is_no_damage(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    (place / ".kafka_cleanshutdown").unlink()
    watermarks, points = (place / f"{each}-offset-checkpoint" for each in ("replication", "recovery-point"))
    watermarks.write_text("0\n1\norders 1 4\n")
    for points_ns, severity in ((2 * 10**18, Severity.NOTICE), (10**18, Severity.DAMAGE)):
        os.utime(watermarks, ns=(15 * 10**17, 15 * 10**17))
        os.utime(points, ns=(points_ns, points_ns))
        found = [finding for finding in verified(paths)[1] if finding.kind is FindingKind.LOST_TAIL]
        assert [finding.severity for finding in found] == [severity]
    points.write_text("0\n1\norders 1 4\n")  # which a truncation replaces
    assert the_finding(paths)[0] is Severity.DAMAGE


def test_directories_that_do_not_count(paths: list[Path]) -> None:
    directory = paths[0] / f"old-0.{UNIQUE}-delete"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"what?" * 100)
    (paths[0] / "remote-log-index-cache").mkdir()
    (paths[0] / "a file").touch()
    verification, findings = verified(paths)
    assert (findings, verification.partitions) == ([], 4)
