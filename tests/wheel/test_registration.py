"""Spark finds the source by its name where kafkafs is installed, in a session that knows nothing of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.log.view import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rows import Row

TIME_S_MAX = 300
CLIENT = Path(__file__).with_name("plain_client.py")
FIXTURES = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize("place", ["spark.master", "spark.remote"])
def test_a_plain_session_reads_what_a_mount_shows(
    place: str,
    programs: Path,
    spark_settings: dict[str, str],
    datasets: Callable[[str], Path],
    shown_rows: Callable[[str, Isolation], list[Row]],
) -> None:
    # tests/spark/test_datasets.py reads every set with every isolation level, through Connect too.
    wanted = [("kafka-2.2", Isolation.UNCOMMITTED), ("kafka-3.9", Isolation.COMMITTED)]
    settings = {place: "local[2]", **{key: spark_settings[key] for key in spark_settings if key != "spark.master"}}
    told = [
        [",".join(str(datasets(name) / name / each) for each in ("d1", "d2")), isolation.value]
        for name, isolation in wanted
    ]
    done = subprocess.run(
        [programs / "python", "-P", CLIENT, json.dumps(settings), json.dumps(told)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_S_MAX,
        env={**os.environ, "PYTHONPATH": str(FIXTURES), "PYSPARK_PYTHON": str(programs / "python")},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    expected = [shown_rows(name, isolation) for name, isolation in wanted]
    assert done.stdout.splitlines()[-len(wanted) :] == [
        f"{len(rows)} {hashlib.sha256(repr(rows).encode()).hexdigest()}" for rows in expected
    ]
    assert all(len(rows) > 30_000 for rows in expected)


def test_what_spark_looks_for_is_imported_without_arrow_and_the_kernel(programs: Path) -> None:
    statement = (
        "import sys; sys.modules['storage.record.kernel'] = None; import pyspark.sql.datasource;"
        "sys.modules.setdefault('pyarrow', None); import pyspark_kafkafs;"
        "print(pyspark_kafkafs.DefaultSource.name(), [name for name in sys.modules if name.startswith('storage.')])"
    )
    done = subprocess.run([programs / "python", "-P", "-c", statement], capture_output=True, text=True, check=True)
    assert done.stdout == "kafkafs ['storage.record.kernel']\n"
