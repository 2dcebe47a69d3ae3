"""A real broker puts aside exactly the partitions that verify calls strays."""

from __future__ import annotations

import json
import shutil
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
    result = CliRunner().invoke(main, ["verify", str(log_dir)])
    assert result.exit_code == 0
    strays = {json.loads(line)["path"] for line in result.stdout.splitlines() if json.loads(line)["kind"] == "stray"}
    assert strays == {"ghost-0", "orders-7"}
    with real_kafka.broker(tmp_path / "one", version=version):
        until(
            lambda: len(stray_names(log_dir)) == len(strays),
            lambda: f"{sorted(each.name for each in log_dir.iterdir())}",
        )
        assert {name.partition(".")[0] for name in stray_names(log_dir)} == strays
    result = CliRunner().invoke(main, ["verify", str(log_dir)])
    assert (result.exit_code, '"stray"' in result.stdout) == (0, False)


def stray_names(log_dir: Path) -> list[str]:
    return [each.name for each in log_dir.iterdir() if each.name.endswith("-stray")]
