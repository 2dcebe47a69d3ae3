"""What real brokers wrote, read with Spark: row for row what a mount shows of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_rows import Row, rows_of_table

from storage.log.view import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CLIENT = Path(__file__).with_name("connect_client.py")
FIXTURES = Path(__file__).parents[1] / "support"
TIME_S_MAX = 300


def log_dirs(datasets: Callable[[str], Path], name: str) -> list[Path]:
    return [datasets(name) / name / each for each in ("d1", "d2")]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_rows_are_those_of_the_tree(
    name: str,
    isolation: Isolation,
    spark: SparkSession,
    datasets: Callable[[str], Path],
    shown_rows: Callable[[str, Isolation], list[Row]],
) -> None:
    paths = log_dirs(datasets, name)
    reader = spark.read.format("kafkafs").option("includeHeaders", "true").option("splitBytes", 200_000)
    frame = reader.option("kafka.isolation.level", isolation.value).load(",".join(map(str, paths)))
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert frame.columns == columns
    rows = rows_of_table(frame.toArrow())
    assert rows == shown_rows(name, isolation)
    assert len(rows) > 30_000


def test_rows_are_the_same_through_connect(
    spark_settings: dict[str, str],
    datasets: Callable[[str], Path],
    shown_rows: Callable[[str, Isolation], list[Row]],
) -> None:
    paths = log_dirs(datasets, "kafka-3.9")
    settings = {
        "spark.remote": "local[2]",
        **{key: spark_settings[key] for key in spark_settings if key != "spark.master"},
    }
    path = os.pathsep.join([str(FIXTURES), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-P", CLIENT, json.dumps(settings), ",".join(map(str, paths))],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_S_MAX,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    expected = shown_rows("kafka-3.9", Isolation.COMMITTED)
    digest = hashlib.sha256(repr(expected).encode()).hexdigest()
    assert done.stdout.splitlines()[-1] == f"{len(expected)} {digest}"
