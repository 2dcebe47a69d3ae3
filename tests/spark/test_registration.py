"""Spark finds the source by its name where kafkafs is installed, in a session that knows nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import GrowingStore

pytestmark = pytest.mark.installed

TIME_S_MAX = 300
PLAIN = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print(sorted(row.value.decode() for row in spark.read.format("kafkafs").load(sys.argv[2]).collect()))
spark.stop()
"""


@pytest.mark.parametrize("place", ["spark.master", "spark.remote"])
def test_a_plain_session_reads_a_store(place: str, spark_settings: dict[str, str], growing: GrowingStore) -> None:
    growing.create("orders", 2)
    growing.append("orders", 1, 9)
    settings = {key: value for key, value in spark_settings.items() if key != "spark.master"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLAIN, json.dumps({place: "local[1]", **settings}), str(growing.path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_S_MAX,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == str(growing.values())


def test_what_spark_looks_for_is_imported_without_arrow_and_the_kernel() -> None:
    statement = (
        "import sys; sys.modules['storage.record.kernel'] = None; import pyspark.sql.datasource;"
        "sys.modules.setdefault('pyarrow', None); import pyspark_kafkafs;"
        "print(pyspark_kafkafs.DefaultSource.name(), [name for name in sys.modules if name.startswith('storage.')])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", statement], capture_output=True, text=True, check=True)
    assert done.stdout == "kafkafs ['storage.record.kernel']\n"
