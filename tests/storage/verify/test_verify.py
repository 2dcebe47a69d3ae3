"""What a verification finds outside of partitions, which partitions it looks through, and in how many processes."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest
from partition_writer import open_closed_log
from path_files import PathFiles
from verified_stores import NOW_MS, forget_cluster, store_of_two, the_finding, verified

from storage.clock import Clock
from storage.errors import NotAStoreError, UnknownPartitionError
from storage.files import Files
from storage.ids import format_id, parse_id
from storage.log.partition_metadata import read_topic_id, write_topic_id
from storage.record import batches_of_rows
from storage.store.store import Mode, Store
from storage.verify import division
from storage.verify import verification as verify
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return store_of_two(tmp_path)


def test_a_store_that_was_closed_or_is_open_is_sound(paths: list[Path]) -> None:
    verification, findings = verified(paths)
    assert findings == []
    assert (verification.partitions, verification.segments, verification.batches) == (4, 4, 11)
    assert verification.done_bytes == verification.total_bytes == verification.size_bytes > 0
    with Store.open(paths, mode=Mode.READ_WRITE, files=Files(), clock=Clock(), open_log=open_closed_log) as store:
        (batch,) = batches_of_rows([(NOW_MS + 9, b"key", b"value", ())])
        store.log("orders", 1).append_as_leader(batch, leader_epoch=0)
        verification, findings = verified(paths)
        assert (findings, verification.batches) == ([], 12)


def test_only_some_topics(paths: list[Path]) -> None:
    verification, findings = verified(paths, topics=["events"])
    assert (findings, verification.partitions, verification.batches) == ([], 1, 2)
    with pytest.raises(UnknownPartitionError, match="no topic 'other'"):
        Verification(Files(), paths, topics=["orders", "other"])


def test_what_is_no_store(tmp_path: Path, paths: list[Path]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for path in ("empty", "file", "missing"):
        with pytest.raises(NotAStoreError):
            Verification(Files(), [tmp_path / path])
    with pytest.raises(NotAStoreError, match="twice"):
        Verification(Files(), [paths[0], paths[0]])


@pytest.mark.parametrize(
    "text",
    [
        "version=7\n",
        "version=1\ncluster.id=x\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=x\nnode.id=-1\n",
        "hello world\n",  # no version, which is version 0, and no broker
        "",
        "version=0\ncluster.id=x\n",
        "version=0\nbroker.id=\\u00zz\n",
    ],
)
def test_meta_properties_that_make_no_sense(paths: list[Path], text: str) -> None:
    (paths[1] / "meta.properties").write_text(text)
    expected = (Severity.DAMAGE, FindingKind.META_PROPERTIES, str(paths[1]), "meta.properties")
    assert the_finding(paths) == expected


def test_meta_properties_that_are_a_directory(paths: list[Path]) -> None:
    (paths[1] / "meta.properties").unlink()
    (paths[1] / "meta.properties").mkdir()
    _, findings = verified(paths)
    assert [finding.kind for finding in findings] == [FindingKind.META_PROPERTIES, FindingKind.FOREIGN_DIRECTORY]


@pytest.mark.parametrize("text", ["version=0\nbroker.id=1\n", "broker.id=1\ncluster.id=x\n"])
def test_meta_properties_of_brokers_with_zookeeper(paths: list[Path], text: str) -> None:
    """Before 2.4 they did not write the cluster, and present ones read a file without a version."""
    forget_cluster(paths)
    for path in paths:
        (path / "meta.properties").write_text(text)
    assert verified(paths)[1] == []


def test_each_directory_that_is_not_of_one_broker_with_most_others_is_named(paths: list[Path]) -> None:
    texts = {"a": "cluster.id=x\nnode.id=1\n", "b": "cluster.id=y\nnode.id=1\n", "c": "cluster.id=y\nnode.id=2\n"}
    directories = [*paths, paths[0].with_name("c")]
    directories[2].mkdir()
    forget_cluster(paths)
    unique = "directory.id=HRbUoFySSAOUHTtUqFkWOA\n"
    for path in directories:
        (path / "meta.properties").write_text(f"version=1\n{texts[path.name]}{unique}")
    _, findings = verified(directories)
    assert {finding.kind for finding in findings} == {FindingKind.META_PROPERTIES}
    a, b, c = map(str, directories)
    assert [(finding.log_dir, finding.reason) for finding in findings] == [
        (a, f"the directory is of cluster x, {b} of y"),
        (c, f"the directory is of node 2, {a} of 1"),
        (b, f"the directory has the same id as {a}"),
        (c, f"the directory has the same id as {a}"),
    ]


def test_directories_of_two_brokers(paths: list[Path]) -> None:
    forget_cluster(paths)
    (paths[1] / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    expected = (Severity.DAMAGE, FindingKind.META_PROPERTIES, str(paths[1]), "meta.properties")
    assert the_finding(paths) == expected
    assert verified([paths[1]])[1] == []


@pytest.mark.parametrize("data", [bytes(40), b"0\n5\norders 0 1\n", b"\xff", b"0\n1\norders 0\n"])
@pytest.mark.parametrize("prefix", ["recovery-point", "log-start", "replication", "cleaner"])
def test_checkpoints_that_make_no_sense(paths: list[Path], prefix: str, data: bytes) -> None:
    name = f"{prefix}-offset-checkpoint"
    (paths[0] / name).write_bytes(data)
    assert the_finding(paths) == (Severity.DAMAGE, FindingKind.CHECKPOINT, str(paths[0]), name)


@pytest.mark.parametrize("prefix", ["recovery-point", "log-start", "replication"])
def test_a_checkpoint_beyond_the_logs_end(paths: list[Path], prefix: str) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    (place / f"{prefix}-offset-checkpoint").write_text("0\n2\norders 1 4\nother 7 9\n")
    _, (finding,) = verified(paths)
    assert (finding.kind, finding.topic, finding.partition) == (FindingKind.LOST_TAIL, "orders", 1)
    assert finding.path == f"orders-1/{0:020d}.log"
    assert finding.reason == f"the log ends at offset 3, and {prefix}-offset-checkpoint has 4"
    (place / f"{prefix}-offset-checkpoint").write_text("0\n1\norders 1 3\n")
    assert verified(paths)[1] == []


def test_a_cleaner_that_was_too_far_is_put_right_by_brokers(paths: list[Path]) -> None:
    for path in paths:
        (path / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 99\n")
    assert verified(paths)[1] == []


def test_directories_that_no_broker_puts_up_with(paths: list[Path]) -> None:
    (paths[0] / "lost+found").mkdir()
    assert the_finding(paths) == (Severity.DAMAGE, FindingKind.FOREIGN_DIRECTORY, str(paths[0]), "lost+found")


def metadata_of(paths: list[Path], name: str) -> Path:
    (found,) = [path / name / "partition.metadata" for path in paths if (path / name).exists()]
    return found


def test_of_partitions_that_are_of_different_topics_the_odd_one_is_named(paths: list[Path]) -> None:
    right = read_topic_id(Files().directory(metadata_of(paths, "orders-1").parent))
    wrong = parse_id("AAAAAAAAAAAAAAAAAAAAAQ")
    write_topic_id(Files().directory(metadata_of(paths, "orders-0").parent), wrong)
    _, (finding,) = verified(paths)
    assert (finding.kind, finding.path) == (FindingKind.PARTITION_METADATA, "orders-0/partition.metadata")
    assert finding.reason == (
        f"the partition is of another topic: its id is {format_id(wrong)}, and the other partitions of orders have "
        f"{format_id(right)}"
    )


def test_partitions_without_a_majority_are_all_named(paths: list[Path]) -> None:
    write_topic_id(Files().directory(metadata_of(paths, "orders-0").parent), parse_id("AAAAAAAAAAAAAAAAAAAAAQ"))
    metadata_of(paths, "orders-1").unlink()
    _, findings = verified(paths)
    named = {finding.path.partition("/")[0]: finding.reason for finding in findings}
    assert named.keys() == {"orders-0", "orders-1", "orders-2"}
    for name in ("orders-0", "orders-2"):
        assert named[name].startswith("the partitions of orders disagree about its id: this one has ")


def test_a_partition_in_two_places_and_of_two_topics(paths: list[Path]) -> None:
    (place,) = [path for path in paths if (path / "orders-1").exists()]
    (other,) = [path for path in paths if path is not place]
    (other / "orders-1").mkdir()
    (other / "orders-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    _, findings = verified(paths)
    assert {finding.kind for finding in findings} == {FindingKind.DUPLICATE_PARTITION, FindingKind.PARTITION_METADATA}
    assert {finding.severity for finding in findings} == {Severity.DAMAGE}


def copied(paths: list[Path], name: str, number: int, log_dir: Path) -> Path:
    """A copy of a partition, on its way to a log directory."""
    return shutil.copytree(metadata_of(paths, name).parent, log_dir / f"{name}.{number:032x}-future")


@pytest.mark.parametrize("second", [0, 1])
def test_two_copies_of_a_partition(paths: list[Path], second: int) -> None:
    one = copied(paths, "orders-1", 1, paths[0])
    assert verified(paths)[1] == []
    other = copied(paths, "orders-1", 2, paths[second])
    assert the_finding(paths) == (Severity.DAMAGE, FindingKind.DUPLICATE_COPY, str(other.parent), other.name)
    _, (finding,) = verified(paths)
    assert finding.reason == f"{one} is a copy of the same partition; no broker starts with both"
    (one / "partition.metadata").unlink()  # which makes it a stray
    assert verified(paths)[1] == []


def test_copies_that_have_no_topic_id_where_none_has(paths: list[Path]) -> None:
    for path in paths:
        properties = path / "meta.properties"
        old = properties.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
        properties.write_text(old)
    for number in (1, 2):
        (copied(paths, "orders-1", number, paths[0]) / "partition.metadata").unlink()
    assert the_finding(paths)[1] is FindingKind.DUPLICATE_COPY


def test_a_partition_that_is_still_being_made(paths: list[Path]) -> None:
    (paths[0] / "new-0").mkdir()
    (paths[0] / "new-0" / f"{0:020d}.index").write_bytes(b"12345678")
    assert the_finding(paths)[1] is FindingKind.ORPHANED_INDEX
    with (paths[0] / "kafkafs-topics.properties").open("a") as settings:
        settings.write("/void/new-0=AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert verified(paths)[1] == []


def test_settings_that_cannot_be_read(paths: list[Path]) -> None:
    with (paths[0] / "kafkafs-topics.properties").open("a") as settings:
        settings.write("/version=\\u00\n")
    expected = (Severity.DAMAGE, FindingKind.SETTINGS, None, "kafkafs-topics.properties")
    assert the_finding(paths) == expected


class RefusingFiles(PathFiles):
    """Files of which some cannot be read."""

    def __init__(self, refused: str) -> None:
        self._refused = refused

    def open_reading(self, path: str) -> object:
        if str(path).endswith(self._refused):
            raise PermissionError(13, "Permission denied", str(path))
        return super().open_reading(path)


@pytest.mark.parametrize(
    "name",
    [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata"],
)
def test_files_that_may_not_be_read(paths: list[Path], name: str) -> None:
    verification = Verification(RefusingFiles(name), paths)
    findings = list(verification.run(lambda: None))
    assert {finding.severity for finding in findings} == {Severity.UNREADABLE}
    assert {finding.reason for finding in findings} == {"Permission denied"}
    assert len(findings) == verification.counts[Severity.UNREADABLE] == 4


def test_several_processes_find_the_same(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for path in paths:
        for log in path.rglob("*.log"):
            log.write_bytes(log.read_bytes() + b"what?")
    alone, expected = verified(paths)
    monkeypatch.setattr(verify, "_SPREAD_FROM_BYTES", 0)
    together, findings = verified(paths, jobs=2)
    assert len(expected) == 4
    assert sorted(findings, key=lambda finding: finding.path) == sorted(expected, key=lambda finding: finding.path)
    assert together.counts == alone.counts
    assert (together.batches, together.done_bytes) == (alone.batches, alone.done_bytes)


def test_several_processes_share_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create([tmp_path], files=Files(), clock=Clock(), open_log=open_closed_log) as store:
        for topic, size in (("giant", 40), ("small", 2)):
            store.topics.create(topic, 1, {"segment.index.bytes": "1200", "segment.bytes": "300"})
            for at in range(size):
                (batch,) = batches_of_rows([(NOW_MS + at, b"key", b"value" * 10, ())])
                store.log(topic, 0).append_as_leader(batch, leader_epoch=0)
    for number, log in enumerate(sorted((tmp_path / "giant-0").glob("*.log"))):
        data = bytearray(log.read_bytes())
        data[70 if number % 2 else 17] ^= 1  # the record, which the checksum is of; and a field before it
        log.write_bytes(data)
    alone, expected = verified([tmp_path])
    monkeypatch.setattr(verify, "_SPREAD_FROM_BYTES", 0)
    monkeypatch.setattr(division, "_CUT_FROM_BYTES", 0)
    monkeypatch.setattr(division, "verify_partition", None)  # were it called here: the workers have their own
    together, findings = verified([tmp_path], jobs=2)
    assert len(division.Division.of(together.targets, 2).cut) == 1
    assert together.segments > 10
    assert len(expected) > 10
    assert findings == expected
    assert (together.counts, together.batches, together.done_bytes) == (alone.counts, alone.batches, alone.done_bytes)


def test_it_reads_no_faster_than_it_may(paths: list[Path]) -> None:
    begun = time.monotonic()
    verification = Verification(Files(), paths)
    assert list(verification.run(lambda: None, bytes_per_second_max=verification.total_bytes * 4)) == []
    assert time.monotonic() - begun >= 0.25
