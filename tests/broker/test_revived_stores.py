"""Real brokers start on what `kafkafs revive` made of dead ones, and serve every record, offset and group."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from real_brokers import releases
from revived_stores import all_records, fingerprint, group_offsets, revived, revived_broker, stored_records

from kafkafs.cli import main
from storage.log.view import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from real_brokers import RealKafka

GROUPS = ("g1", "g2")


def without_metadata_log(source: Path, target: Path) -> list[Path]:
    shutil.copytree(source, target)
    for log_dir in ("d1", "d2"):
        shutil.rmtree(target / log_dir / "__cluster_metadata-0", ignore_errors=True)
    return [target / "d1", target / "d2"]


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed"])
@pytest.mark.parametrize("version", releases("4"))
def test_a_broker_serves_what_a_dead_one_had(
    name: str, version: str, datasets: Callable[[str], Path], real_kafka: RealKafka, tmp_path: Path
) -> None:
    disks = [datasets(name) / name / log_dir for log_dir in ("d1", "d2")]
    if name == "kafka-3.9":
        disks = without_metadata_log(datasets(name) / name, tmp_path / "disks")
    before = fingerprint(disks)
    folder = revived(tmp_path / "node", disks)
    assert fingerprint(disks) == before
    committed = groups_of(disks)
    with revived_broker(real_kafka, folder, version=version) as broker:
        served = all_records(broker.bootstrap, Isolation.UNCOMMITTED)
        assert {group: asyncio.run(group_offsets(broker.bootstrap, group)) for group in GROUPS} == committed
        in_transactions = all_records(broker.bootstrap, Isolation.COMMITTED)
    stored = stored_records(disks)
    assert served == {place: records for place, records in stored.items() if place in served}
    assert {place for place, records in stored.items() if records} <= served.keys()
    for place, records in stored_records(disks, Isolation.COMMITTED).items():
        assert in_transactions[place][: len(records)] == records


def groups_of(disks: list[Path]) -> dict[str, dict[tuple[str, int], int]]:
    """Return the groups' offsets as the disks have them."""
    printed = CliRunner().invoke(main, ["groups", ",".join(map(str, disks)), "--json"])
    found: dict[str, dict[tuple[str, int], int]] = {group: {} for group in GROUPS}
    for row in json.loads(printed.stdout):
        if row["committedOffset"] is not None:
            found[row["group"]][row["topic"], row["partition"]] = row["committedOffset"]
    return found
