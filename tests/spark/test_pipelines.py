"""The Declarative Pipeline of the page on Spark brings its tables up to date."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from storage.record.encoding import batches_of_rows

if TYPE_CHECKING:
    from conftest import GrowingStore

ROOT = Path(__file__).parents[2]
TIME_S_MAX = 300
CUSTOMERS = 3


@pytest.fixture
def pipeline(growing: GrowingStore, tmp_path: Path) -> Path:
    """Write what the page shows, with a store of 50 orders in place of its own."""
    growing.create("orders")
    values = [json.dumps({"order": number, "amount": number % 7}).encode() for number in range(50)]
    rows = [
        (1_700_000_000_000, b"customer-%d" % (number % CUSTOMERS), value, ()) for number, value in enumerate(values)
    ]
    for batch in batches_of_rows(rows, base_offset=None, max_bytes=1024):
        growing.store.log("orders", 0).append_as_leader(batch, leader_epoch=0)
    page = files("kafkafs").joinpath("docs", "pyspark.md").read_text(encoding="utf-8")
    (specification,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (definitions,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    directory = tmp_path / "pipeline"
    (directory / "transformations").mkdir(parents=True)
    specification = specification.replace("/srv/pipeline", f"{tmp_path}/kept")
    (directory / "spark-pipeline.yml").write_text(specification)
    (directory / "transformations" / "orders.py").write_text(definitions.replace("/srv/store", str(growing.path)))
    return directory


@pytest.mark.usefixtures("spark_settings")  # where there is no Spark, it is not run
def test_the_pipeline_of_the_page(pipeline: Path) -> None:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    modules = [str(ROOT), str(ROOT / "kafkafs" / "spark" / "registration")]  # as they lie side by side in the wheel
    python = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([python, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(modules),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [Path(found.origin).parent / "bin" / "spark-pipelines", "run"],
        cwd=pipeline,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_S_MAX,
        check=False,
    )
    assert "Run is COMPLETED" in done.stdout + done.stderr, done.stdout + done.stderr
    tables = [path for path in pipeline.parent.rglob("amounts") if path.is_dir()]
    assert len(tables) == 1
    amounts = pyarrow.dataset.dataset(tables[0], format="parquet").to_table().to_pylist()
    wanted = {f"customer-{n}": sum(number % 7 for number in range(n, 50, CUSTOMERS)) for n in range(CUSTOMERS)}
    assert {row["customer"]: row["amount"] for row in amounts} == wanted
