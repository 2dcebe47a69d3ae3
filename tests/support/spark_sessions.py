"""The settings of a small Spark, and what the tree shows of the stores that it reads.

Where Java or PySpark is missing the tests are not run, and say so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_rows import rows_of_lines

from kafkafs.cli.tree import node_at, opened_tree
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from storage.store.store import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_rows import Row

    from storage.log.view import Isolation

JAVA_VERSION_MIN = 17
LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


def require_spark() -> None:
    """Have the test not run where Spark cannot."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    if java is None:
        pytest.skip("not run: there is no Java, which Spark needs")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', told)
    if match is None or int(match[1]) < JAVA_VERSION_MIN:
        pytest.skip(f"not run: Spark needs Java {JAVA_VERSION_MIN}, and {java} is another")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("not run: PySpark is not installed")


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the settings of a small Spark that says little and whose tasks may fail once."""
    require_spark()
    root = tmp_path_factory.mktemp("spark")
    logging = root / "log4j2.properties"
    logging.write_text(LOGGING)
    options = f"-Dlog4j2.configurationFile={logging} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {
        "spark.master": "local[2,2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(root / "local"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@pytest.fixture(scope="session")
def mounted_lines() -> Callable[[Sequence[Path], Isolation], bytes]:
    """Return what the tree shows as the `records.jsonl` of all partitions."""

    def lines(paths: Sequence[Path], isolation: Isolation) -> bytes:
        parts = []
        with opened_tree(paths, Mode.READ_ONLY, TreeOptions(isolation=isolation)) as tree:
            for topic, partitions in tree.context.store.topics.inventory.topics.items():
                for partition in partitions:
                    node = node_at(tree, f"{topic}/{partition}/records.jsonl")
                    assert isinstance(node, File)
                    with closing(node.open()) as reading:
                        position = 0
                        while data := bytes(reading.read(position, 1 << 20)):
                            parts.append(data)
                            position += len(data)
        return b"".join(parts)

    return lines


@pytest.fixture(scope="session")
def shown_rows(
    datasets: Callable[[str], Path], mounted_lines: Callable[[Sequence[Path], Isolation], bytes]
) -> Callable[[str, Isolation], list[Row]]:
    """Return the rows that the tree shows of a data set's log directories, each of which is read once."""

    @cache
    def rows(name: str, isolation: Isolation) -> list[Row]:
        return rows_of_lines(mounted_lines([datasets(name) / name / each for each in ("d1", "d2")], isolation))

    return rows
