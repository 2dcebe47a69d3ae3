"""The job `verify`: the very findings of the check on one machine."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.spark import jobs
from storage.split.splits import packed
from storage.verify import division

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result
    from conftest import GrowingStore
    from pyspark.sql import SparkSession

CUT_FROM_BYTES = 4096


@pytest.fixture
def cut_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have partitions cut that are small, and tasks look at so little each."""

    def cut(size_bytes: int) -> None:
        module = import_module("kafkafs.spark.jobs.verify")
        monkeypatch.setattr(module, "packed", lambda units, _: packed(units, size_bytes))
        monkeypatch.setattr(division, "_CUT_FROM_BYTES", CUT_FROM_BYTES)

    return cut


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert "Traceback" not in result.output
    return result


def one_machine(store: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("verify", store).stdout.splitlines()]


def rows_of(spark: SparkSession, *arguments: Any) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in jobs.verify(spark, *arguments).collect()]
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def as_set(rows: list[dict[str, Any]]) -> set[str]:
    found = {json.dumps(row) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "folder", "least"),
    [
        ("kafka-3.9-recovery", "kafka-3.9-recovery/before", 18),
        ("kafka-2.2", "kafka-2.2", 0),
        ("kafka-3.9", "kafka-3.9", 0),
    ],
)
def test_the_findings_are_those_of_one_machine(
    name: str,
    folder: str,
    least: int,
    spark: SparkSession,
    datasets: Callable[[str], Path],
    cut_to: Callable[[int], None],
) -> None:
    cut_to(2_000_000)
    root = datasets(name) / folder
    paths = sorted(path for path in root.iterdir() if path.is_dir() and (path / "meta.properties").exists())
    assert paths
    due = one_machine(",".join(map(str, paths)))
    assert as_set(rows_of(spark, paths)) == as_set(due)
    assert len(due) >= least


def test_a_log_of_many_segments(spark: SparkSession, growing: GrowingStore, cut_to: Callable[[int], None]) -> None:
    cut_to(CUT_FROM_BYTES)
    growing.create("orders", 2)
    growing.append("orders", 0, 300)
    growing.append("orders", 1, 40)
    growing.store.close()
    assert rows_of(spark, str(growing.path)) == one_machine(str(growing.path)) == []
    logs = sorted((growing.path / "orders-0").glob("*.log"))
    assert len(logs) > 10
    data = bytearray(logs[4].read_bytes())
    data[data.rindex(b"orders-0-")] ^= 1  # in a value
    logs[4].write_bytes(data)
    logs[7].unlink()
    logs[2].with_suffix(".index").write_bytes(b"\0" * 12)
    found = rows_of(spark, str(growing.path), ["orders"])
    assert as_set(found) == as_set(one_machine(str(growing.path)))
    assert {"checksum", "offset_gap", "orphaned_index", "index_size"} <= {row["kind"] for row in found}


def test_the_command(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    growing.create("orders")
    growing.append("orders", 0, 60)
    growing.store.close()
    assert spark.sparkContext is not None
    sound = run("spark", "verify", growing.path)
    assert (sound.exit_code, sound.stdout) == (0, "")
    single = run("verify", growing.path)
    assert re.fullmatch(rf"{re.escape(single.stderr.strip())} in [0-9.]+ s\n", sound.stderr)
    log = max((growing.path / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    damaged, single = run("spark", "verify", growing.path), run("verify", growing.path)
    assert (damaged.exit_code, damaged.stdout) == (single.exit_code, single.stdout)
    assert damaged.exit_code == 1
    for code, arguments in ((1, (growing.path, "other")), (2, (tmp_path / "no",))):
        missing, single = run("spark", "verify", *arguments), run("verify", *arguments)
        assert (missing.exit_code, missing.stderr) == (single.exit_code, single.stderr)
        assert missing.exit_code == code
