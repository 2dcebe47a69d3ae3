"""A real broker puts aside exactly the partitions that verify calls strays."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from waiting import until

from kafkafs.cli import main
from storage.ids import format_id, random_id

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_strays_are_those_of_a_broker(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with real_kafka.broker(tmp_path / "one", version=version) as broker:
        [log_dir] = broker.log_dirs
        create = ("--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders", "--partitions", 2)
        real_kafka.tool("TopicCommand", *create, version=version)
        until((log_dir / "orders-1").is_dir, "the broker made both partitions")
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


@pytest.mark.parametrize("version", ["3.9", "4"])
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
