"""Queries and jobs whose tasks do not see the store that they were planned on: none ends as if it were empty."""

from __future__ import annotations

import pathlib
import socket
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark import jobs
from kafkafs.spark.failures import kind_of_ours, ours

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GrowingStore
    from pyspark.sql import DataFrame, SparkSession

PySparkException = pytest.importorskip("pyspark.errors", reason="not run: PySpark is not installed").PySparkException


RECORDS = 99


@pytest.fixture
def store(growing: GrowingStore) -> Path:
    growing.create("orders", 2)
    growing.append("orders", 0, 90)
    growing.append("orders", 1, 9)
    growing.store.close()
    return growing.path


def rows(spark: SparkSession, path: Path) -> DataFrame:
    """Return the rows of a store as they are planned now."""
    frame = spark.read.format("kafkafs").option("failOnDataLoss", "false").load(str(path))
    assert len(frame.collect()) == RECORDS
    return frame


def is_told(error: BaseException, lack: str) -> bool:
    said = f"{socket.gethostname()} sees less of the store than the driver saw: {lack}; mount the store there"
    return (ours(error) or "").startswith(said) and kind_of_ours(error) == "SeenLessError"


@pytest.mark.parametrize("job", [rows, jobs.gaps, jobs.skew])
def test_what_is_read_later_fails_if_the_store_is_gone_by_then(
    job: Callable[[SparkSession, Path], DataFrame], spark: SparkSession, store: Path
) -> None:
    frame, another = job(spark, store), job(spark, store)
    moved = store.rename(store.with_name("moved"))
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    assert is_told(raised.value, f"{store} is not there")
    moved.rename(store)
    log = sorted((store / "orders-0").glob("*.log"))[2]
    log.unlink()
    with pytest.raises(PySparkException) as raised:
        another.collect()
    assert is_told(raised.value, f"{log} is not there")


def test_a_write_fails_if_a_task_does_not_see_the_store(spark: SparkSession, store: Path) -> None:
    place = str(store)

    def losing(batches):
        path = pathlib.Path(place)
        if path.exists():
            path.rename(path.with_name("moved"))
        yield from batches

    lost = spark.range(1, numPartitions=1).selectExpr("'v' as value").mapInArrow(losing, "value string")
    with pytest.raises(PySparkException) as raised:
        lost.write.format("kafkafs").mode("append").option("topic", "orders").save(place)
    assert is_told(raised.value, f"{place} is not there")
