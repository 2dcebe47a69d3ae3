"""A real broker puts aside exactly the partitions that verify calls strays."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from real_brokers import releases
from waiting import until

from kafkafs.cli import main
from storage.ids import format_id, random_id

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka


@pytest.mark.parametrize("version", releases("4"))
def test_strays_are_those_of_a_broker(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with real_kafka.broker(tmp_path / "one", version=version) as broker:
        [log_dir] = broker.log_dirs
        create = ("--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders", "--partitions", 2)
        real_kafka.tool("TopicCommand", *create, version=version)
        of_both = [log_dir / f"orders-{number}" / "partition.metadata" for number in range(2)]
        until(
            lambda: all(each.is_file() for each in of_both), "the broker made both partitions, each with its topic's id"
        )
    ghost = shutil.copytree(log_dir / "orders-0", log_dir / "ghost-0")
    (ghost / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(random_id())}")
    shutil.copytree(log_dir / "orders-0", log_dir / "orders-7")
    (shutil.copytree(log_dir / "orders-0", log_dir / "nameless-0") / "partition.metadata").unlink()
    shutil.copytree(log_dir / "orders-0", log_dir / "renamed-0")
    shutil.copytree(ghost, log_dir / "orders-8")
    said = told(log_dir)
    renamed = said.pop("renamed-0")
    assert renamed.endswith("a broker opens it under a name that the cluster does not know, and serves it to no client")
    assert said.keys() == {"ghost-0", "orders-7", "nameless-0", "orders-8"}
    assert all(
        reason.endswith("a broker renames its directory to -stray and serves it no more") for reason in said.values()
    )
    with real_kafka.broker(tmp_path / "one", version=version):
        until(
            lambda: len(stray_names(log_dir)) == len(said),
            lambda: f"{sorted(each.name for each in log_dir.iterdir())}",
        )
        assert {name.partition(".")[0] for name in stray_names(log_dir)} == said.keys()
    assert told(log_dir).keys() == {"renamed-0"}


@pytest.mark.parametrize("version", releases("3.9"))
def test_a_metadata_log_without_its_beginning_keeps_a_broker_from_starting(
    real_kafka: RealKafka, tmp_path: Path, version: str
) -> None:
    often = {"metadata.log.segment.ms": "100", "metadata.log.max.snapshot.interval.ms": "1000"}
    with real_kafka.broker(tmp_path / "one", often, version=version) as broker:
        [log_dir] = broker.log_dirs
        metadata = log_dir / "__cluster_metadata-0"
        until(lambda: len(list(metadata.glob("*.log"))) > 3 and superseded(metadata), "a snapshot of some segments")
        broker.stop()
    for segment in superseded(metadata):  # as the broker would, a minute later
        for path in metadata.glob(f"{segment.stem}.*"):
            path.unlink()
    assert told(log_dir) == {}
    snapshots = list(metadata.glob("*.checkpoint"))
    for snapshot in snapshots:
        snapshot.rename(tmp_path / snapshot.name)
    result = CliRunner().invoke(main, ["verify", str(log_dir)])
    assert (result.exit_code, "so what came before is lost; no broker starts with it" in result.stdout) == (1, True)
    with (
        pytest.raises(real_kafka.Error, match="there must be a snapshot"),
        real_kafka.broker(tmp_path / "one", version=version),
    ):
        pass
    for snapshot in snapshots:
        (tmp_path / snapshot.name).rename(snapshot)
    for path in metadata.glob("*.log"):
        path.unlink()  # as if the broker had fetched the snapshot, and was killed before it dropped the log
    assert told(log_dir) == {}
    with real_kafka.broker(tmp_path / "one", version=version):
        assert stray_names(log_dir) == []


@pytest.mark.parametrize("version", releases("4"))
def test_two_copies_of_a_partition_keep_a_broker_from_starting_unless_they_are_strays(
    real_kafka: RealKafka, tmp_path: Path, version: str
) -> None:
    settings = {"log.dirs": f"{tmp_path / 'd1'},{tmp_path / 'd2'}"}
    with real_kafka.broker(tmp_path / "one", settings, version=version) as broker:
        log_dirs = broker.log_dirs
        real_kafka.tool(
            "TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders", version=version
        )
        until(lambda: any(tmp_path.glob("d?/orders-0/partition.metadata")), "the broker made the partition")
        broker.stop()
    [partition] = tmp_path.glob("d?/orders-0")
    copies = [shutil.copytree(partition, each / f"orders-0.{at:032x}-future") for at, each in enumerate(log_dirs)]
    assert [(each["kind"], each["path"]) for each in damage(log_dirs)] == [("duplicate_copy", copies[1].name)]
    with (
        pytest.raises(real_kafka.Error, match="Duplicate log directories found"),
        real_kafka.broker(tmp_path / "one", settings, version=version),
    ):
        pass
    for copy in copies:
        (copy / "partition.metadata").unlink()
    assert damage(log_dirs) == []
    with real_kafka.broker(tmp_path / "one", settings, version=version):
        until(lambda: not any(copy.exists() for copy in copies), "the broker put both aside")
        assert len([name for each in log_dirs for name in stray_names(each)]) == len(copies)


def damage(log_dirs: list[Path]) -> list[dict[str, object]]:
    """The damage that verify finds."""
    result = CliRunner().invoke(main, ["verify", ",".join(map(str, log_dirs))])
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    return [each for each in findings if each["severity"] == "damage"]


def superseded(metadata: Path) -> list[Path]:
    """The segments that end before the newest snapshot does."""
    newest = max((int(path.name.partition("-")[0]) for path in metadata.glob("*.checkpoint")), default=0)
    segments = sorted(metadata.glob("*.log"))
    return [segment for segment, following in pairwise(segments) if int(following.stem) <= newest]


def told(log_dir: Path) -> dict[str, str]:
    """What verify calls strays, and why."""
    result = CliRunner().invoke(main, ["verify", str(log_dir)])
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    return {each["path"]: each["reason"] for each in findings if each["kind"] == "stray"}


def stray_names(log_dir: Path) -> list[str]:
    return [each.name for each in log_dir.iterdir() if each.name.endswith("-stray")]
