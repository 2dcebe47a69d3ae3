"""Spark over hostile stores: a sound topic beside everything else is read, and nothing outside is touched."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hostile import CASES
from hostile.runs import SILENCE_S, watching
from hostile.store import RECORDS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PySparkException = pytest.importorskip("pyspark.errors", reason="not run: PySpark is not installed").PySparkException


@pytest.mark.parametrize(
    "case",
    [
        "links as partitions",
        "FIFOs as all files of a partition",
        "a terabyte as 00000000000000000000.log of a partition",
        "a staged file with nested in its index",
        "a ledger of 1e400",
    ],
)
def test_a_sound_topic_is_read(spark: SparkSession, case: str, tmp_path: Path) -> None:
    store = CASES[case].make(tmp_path)
    spark.range(1).count()
    with watching(store) as watch:
        started = time.monotonic()
        frame = spark.read.format("kafkafs").option("subscribe", "sound").load(str(store.path))
        assert frame.count() == RECORDS
        with suppress(PySparkException):
            assert spark.read.format("kafkafs").option("subscribe", "victim").load(str(store.path)).count() <= RECORDS
        assert time.monotonic() - started < 4 * SILENCE_S  # two jobs, each of which answers
        assert not watch.touched()
