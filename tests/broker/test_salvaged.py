"""A real broker serves what was salvaged of a damaged partition; one that had recovered it had cut most of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from real_brokers import releases
from revived_stores import all_records, revived, revived_broker, stored_records

from kafkafs.cli import main
from storage.log.view import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from real_brokers import RealKafka

pytestmark = pytest.mark.timed  # it starts a broker for one command, which only scripts/prove does

LOST = {("t-zstd", 0): range(1050, 1100), ("t-lz4", 0): range(1950, 2000), ("t-txn", 1): range(659, 660)}


@pytest.mark.parametrize("version", releases("4"))
def test_a_broker_serves_what_was_salvaged(
    version: str, datasets: Callable[[str], Path], real_kafka: RealKafka, tmp_path: Path
) -> None:
    root = datasets("kafka-3.9-recovery") / "kafka-3.9-recovery"
    disks = [root / "before" / log_dir for log_dir in ("d1", "d2")]
    for topic, partition in LOST:
        words = ["salvage", ",".join(map(str, disks)), f"{topic}/{partition}", str(tmp_path / "salvaged")]
        assert CliRunner().invoke(main, words).exit_code == 0
    folder = revived(tmp_path / "node", [tmp_path / "salvaged"], status=1)  # records are lost
    with revived_broker(real_kafka, folder, version=version) as broker:
        served = all_records(broker.bootstrap, Isolation.UNCOMMITTED)
    recovered = stored_records([root / "after" / log_dir for log_dir in ("d1", "d2")])
    stored = stored_records([tmp_path / "salvaged"])
    for place, lost in LOST.items():
        assert served[place] == stored[place]
        assert not {record[0] for record in served[place]} & set(lost)
        kept = recovered[place]
        assert served[place][: len(kept)] == kept
    zstd = served["t-zstd", 0]
    assert [record[0] for record in zstd if record[0] >= 1050] == list(range(1100, 2120))
    assert len(recovered["t-zstd", 0]) == 1050
