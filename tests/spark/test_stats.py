"""The job `stats`, against the counts of one machine and against what the source's rows say."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from pyspark.sql import functions

from kafkafs.cli import main
from kafkafs.spark import jobs, read
from kafkafs.spark.sight import Sighted
from storage.clock import Clock
from storage.files import Files
from storage.split.splits import packed
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GrowingStore
    from pyspark.sql import SparkSession

MORE = ("averageBatchBytes", "largestBatchBytes", "recordsPerSecond", "bytesPerSecond")
FEW_BYTES = 1_000_000


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tasks do little, so that there are many."""
    module = import_module("kafkafs.spark.jobs.stats")
    monkeypatch.setattr(module, "packed", lambda pieces, _: packed(pieces, FEW_BYTES))


def one_machine(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["stats", *map(str, arguments), "--json"])
    assert result.exit_code == 0
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def rows_of(spark: SparkSession, *arguments: Any) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in jobs.stats(spark, *arguments).collect()]
    for row in rows:
        row["magics"] = {str(magic): count for magic, count in row["magics"].items()}
    return rows


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9-killed"])
def test_the_counts_are_those_of_one_machine(name: str, spark: SparkSession, datasets: Callable[[str], Path]) -> None:
    paths = [datasets(name) / name / each for each in ("d1", "d2")]
    store = ",".join(map(str, paths))
    found, due = rows_of(spark, paths), one_machine(store)
    assert [{key: row[key] for key in row if key not in MORE} for row in found] == due
    assert sum(row["records"] for row in due) > 10_000
    for row in found:
        if row["batches"]:
            assert 0 < row["averageBatchBytes"] <= row["largestBatchBytes"] <= row["bytes"]
    sums = {
        (row["topic"], row["partition"]): (row["count"], row["first"])
        for row in read(spark, paths, columns=["topic", "partition", "offset"])
        .groupBy("topic", "partition")
        .agg(functions.count("*").alias("count"), functions.min("offset").alias("first"))
        .collect()
    }
    shown = {(row["topic"], row["partition"]): row for row in found if (row["topic"], row["partition"]) in sums}
    assert len(shown) == len(sums) > 20
    for key, (count, first) in sums.items():
        row = shown[key]
        if not row["controlBatches"]:
            assert (row["records"], row["startOffset"] <= first) == (count, True)


def test_sizes_and_rates(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders", 2)
    growing.append("orders", 0, 60)
    (row, empty) = rows_of(spark, str(growing.path), ["orders"])
    sizes = [batch.size_bytes for batch in growing.store.log("orders", 0).view.batches(0)]
    assert row["segments"] > 2
    assert (row["batches"], row["records"]) == (60, 60)
    assert row["averageBatchBytes"] == pytest.approx(sum(sizes) / 60)
    assert row["largestBatchBytes"] == max(sizes)
    assert row["recordsPerSecond"] == pytest.approx(60 / 0.059)
    assert row["bytesPerSecond"] == pytest.approx(sum(sizes) / 0.059)
    assert [empty[name] for name in MORE] == [None] * 4


def test_the_command(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders")
    growing.append("orders", 0, 30)
    result = CliRunner().invoke(main, ["spark", "stats", str(growing.path), "orders", "--json"])
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    (due,) = one_machine(growing.path)
    assert {key: row[key] for key in due} == due
    assert list(row) == [*due, *MORE]
    assert result.stderr.startswith("counted 1 partitions, 30 records, 0.0 MB in ")
    spark.range(1).count()  # the session of others is left running


def test_failures_are_sentences(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.sparkContext is not None
    for arguments, said in (
        ([str(tmp_path / "no")], "there is no such directory"),
        ([str(tmp_path)], "there is neither a meta.properties nor a partition in it"),
    ):
        result = CliRunner().invoke(main, ["spark", "stats", *arguments])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"kafkafs: {said}")


def test_what_fails_in_a_worker_is_a_sentence(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders")
    growing.append("orders", 0, 5)
    log = growing.path / "orders-0" / f"{0:020}.log"
    module = import_module("kafkafs.spark.jobs.stats")
    with Store.open([growing.path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        counted = next(iter(module._planned(opened, None)))[1]
    assert len(counted) == 1
    moved = log.with_suffix(".moved")
    log.rename(moved)
    log.mkdir()  # what can be opened and not read, even by root
    with pytest.raises(Exception, match="IsADirectoryError") as raised:
        module.answers_of(spark, [Sighted(tuple(module._Piece(0, each) for each in counted))], module._count)
    from kafkafs.spark.failures import is_sparks, ours

    assert is_sparks(raised.value)
    assert ours(raised.value) is not None
